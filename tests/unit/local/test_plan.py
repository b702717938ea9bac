import json
from dataclasses import replace
from pathlib import Path

import pytest

from app.errors import ConfigError
from app.local.choices import Choices, FlowerChoice, choose, rechoose
from app.local.options import StackOptions
from app.local.plan import change, plan
from app.local.postgres import PostgresServer
from app.local.valkey import ValkeyServer
from app.settings import EndpointSettings, PoolSettings, Settings

DATA = Path("/data/stack")
EMBEDDED = Choices(
    data=DATA,
    cwd=Path("/work"),
    postgres=PostgresServer(DATA, 20_001, "pw-a", Path("/bin"), None),
    valkey=ValkeyServer(DATA, 20_002, "pw-b", Path("/bin/valkey-server")),
    flower=FlowerChoice("127.0.0.1", 20_003, "giveway", "pw-c", DATA / "secrets/flower"),
    endpoint_port=20_004,
)
OPTIONS = StackOptions(DATA)


def _planned(settings=None, options=OPTIONS, **changes):
    return plan(settings or Settings(), options, replace(EMBEDDED, **changes))


def _spec(stack, name):
    return next(spec for spec in stack.specs if spec.name == name)


def _names(stack):
    return [spec.name for spec in stack.specs]


def test_everything_is_there_when_nothing_is_configured():
    assert _names(_planned()) == [
        "postgres", "valkey", "migrations", "simulated",
        "interactive", "batch", "control", "beat", "flower",
    ]  # fmt: skip


def test_there_are_as_many_interactive_workers_as_the_settings_say():
    stack = _planned(Settings(interactive={"processes": 3}))
    people = [name for name in _names(stack) if name.startswith("interactive")]
    assert people == ["interactive", "interactive-2", "interactive-3"]
    nodes = {argv[argv.index("-n") + 1] for argv in (_spec(stack, one).argv for one in people)}
    assert nodes == {f"{one}@giveway-{EMBEDDED.stack_id}" for one in people}
    assert all("-Q" in _spec(stack, one).argv for one in people)


def test_each_worker_has_one_queue_a_stable_name_and_its_threads():
    stack = _planned(Settings(pools=(PoolSettings(name="main", total=8),)))
    batch = _spec(stack, "batch").argv
    assert batch[batch.index("-Q") + 1] == "batch"
    assert batch[batch.index("-n") + 1] == f"batch@giveway-{EMBEDDED.stack_id}"
    threads = {n: _spec(stack, n).argv for n in ("interactive", "batch", "control")}
    assert {n: argv[argv.index("-c") + 1] for n, argv in threads.items()} == {
        "interactive": "32",
        "batch": "39",
        "control": "8",
    }


def test_a_batch_worker_has_threads_for_endpoints_that_join_later():
    pools = (PoolSettings(name="main", total=8), PoolSettings(name="other", total=5))
    assert Settings(pools=pools).batch_threads == 7 + 4 + 32
    assert Settings(pools=pools, worker={"batch_headroom": 100}).batch_threads == 7 + 4 + 100
    assert Settings(pools=pools, worker={"batch_concurrency": 3}).batch_threads == 3


def test_two_folders_never_share_a_worker_name():
    other = replace(EMBEDDED, data=DATA / "other")
    assert EMBEDDED.stack_id != other.stack_id


def test_only_what_is_missing_is_started():
    settings = Settings(
        database={"url": "postgresql://u:p@db/x"},
        broker={"url": "amqp://u:p@mq//"},
        endpoints=(EndpointSettings(name="gpu", base_url="http://gpu/v1", models=("m",)),),
    )
    stack = _planned(settings, postgres=None, valkey=None, endpoint_port=None)
    assert _names(stack) == ["migrations", "interactive", "batch", "control", "beat", "flower"]
    assert stack.environment["GIVEWAY_DATABASE__URL"] == "postgresql://u:p@db/x"
    assert stack.environment["GIVEWAY_BROKER__URL"] == "amqp://u:p@mq//"
    assert "GIVEWAY_ENDPOINTS" not in stack.environment
    assert _spec(stack, "migrations").after == ()


def test_the_simulated_endpoint_has_the_places_of_the_first_pool():
    stack = _planned(Settings(pools=(PoolSettings(name="gpu", total=5),)))
    endpoint = json.loads(stack.environment["GIVEWAY_ENDPOINTS"])[0]
    assert EndpointSettings(**endpoint).pool == "gpu"
    assert (endpoint["kind"], endpoint["max_concurrency"]) == ("simulated", 5)
    assert endpoint["base_url"] == stack.addresses.endpoint_url == "http://127.0.0.1:20004/v1"
    argv = _spec(stack, "simulated").argv
    assert argv[argv.index("--places") + 1] == "5"


def test_what_every_child_is_told_makes_the_same_settings(monkeypatch):
    for name, value in _planned().environment.items():
        monkeypatch.setenv(name, value)
    told = Settings()
    assert told.database.url.get_secret_value() == EMBEDDED.postgres.url
    assert told.broker.url.get_secret_value() == EMBEDDED.valkey.url
    assert told.endpoints[0].name == "simulated"


def test_no_password_is_on_a_command_line():
    words = [word for spec in _planned().specs for word in spec.argv]
    assert not [word for word in words if "pw-" in word]
    assert _spec(_planned(), "flower").env["FLOWER_BASIC_AUTH"] == "giveway:pw-c"


def test_servers_stop_after_all_that_use_them():
    stage = {spec.name: spec.stop_stage for spec in _planned().specs}
    workers = {stage[name] for name in ("interactive", "batch", "control")}
    others = {stage[name] for name in ("beat", "flower", "simulated")}
    assert max(workers) < min(others) <= max(others) < stage["valkey"] < stage["postgres"]


def test_workers_wait_for_servers_and_tables_but_not_for_the_endpoint():
    assert _spec(_planned(), "batch").after == ("postgres", "valkey", "migrations")


def test_beat_and_flower_wait_for_the_broker_only():
    assert _spec(_planned(), "beat").after == _spec(_planned(), "flower").after == ("valkey",)
    assert _spec(_planned(valkey=None), "beat").after == ()


def test_only_names_what_is_wanted_and_a_worker_brings_its_tables(tmp_path):
    servers = StackOptions(tmp_path, only=("postgres", "valkey"))
    chosen = choose(Settings(), servers)
    assert _names(plan(Settings(), servers, chosen)) == ["postgres", "valkey"]
    with pytest.raises(ConfigError, match="add --only postgres, or set GIVEWAY_DATABASE__URL"):
        choose(Settings(), StackOptions(tmp_path, only=("batch",)))
    remote = Settings(database={"url": "postgresql://db/x"}, broker={"url": "redis://b/0"})
    batch = StackOptions(tmp_path, only=("batch",))
    assert _names(plan(remote, batch, choose(remote, batch))) == ["migrations", "batch"]


def test_flower_is_left_out_when_it_is_not_wanted_and_never_runs_with_a_password_it_splits(
    tmp_path,
):
    remote = Settings(database={"url": "postgresql://db/x"}, broker={"url": "redis://b/0"})
    assert choose(remote, StackOptions(tmp_path, flower=False)).flower is None
    comma = remote.model_copy(
        update={"flower": remote.flower.model_copy(update={"user": "a,b"})},
    )
    with pytest.raises(ConfigError, match="no comma"):
        choose(comma, StackOptions(tmp_path))


def test_changed_settings_start_anew_who_reads_them_and_leave_the_servers():
    settings = Settings(pools=(PoolSettings(name="main", total=5),))
    found = change(_planned(), _planned(settings))
    names = [spec.name for spec in found.anew]
    # Its places are the pool's.
    assert names == [
        "migrations", "simulated", "interactive", "batch", "control", "beat", "flower",
    ]  # fmt: skip
    assert found.gone == ()


def test_endpoints_that_come_end_the_simulated_one():
    real = EndpointSettings(name="gpu", base_url="http://gpu:8000/v1", models=("m",))
    chosen = rechoose(Settings(endpoints=(real,)), OPTIONS, EMBEDDED)
    found = change(_planned(), plan(Settings(endpoints=(real,)), OPTIONS, chosen))
    assert chosen.endpoint_port is None
    assert found.gone == ("simulated",)


def test_a_server_that_comes_or_goes_needs_a_stop_and_a_start():
    for name in ("database", "broker"):
        url = {"database": "postgresql://h/d", "broker": "redis://h/0"}[name]
        with pytest.raises(ConfigError, match=rf"\[{name}\] url has come or gone; giveway down"):
            rechoose(Settings(**{name: {"url": url}}), OPTIONS, EMBEDDED)

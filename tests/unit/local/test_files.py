import dbm.dumb
import json
import stat
import threading

import pytest

from app.errors import ConfigError, StackRunning, UnknownName, UsageError
from app.local import lock, ports, tidying
from app.local.leftovers import Birth, birth_of
from app.local.options import StackOptions
from app.local.secrets import secret, secret_path
from app.local.state import (
    Addresses,
    ProcessState,
    StackState,
    environment_of,
    read_state,
    running_state,
    write_state,
)


def _mode(path):
    return stat.S_IMODE(path.stat().st_mode)


def _state(tmp_path, supervisor):
    return StackState(
        data=str(tmp_path),
        config=None,
        supervisor=supervisor,
        ready=True,
        processes=(
            ProcessState("batch", "running", Birth(12, 3.5), 2),
            ProcessState("beat", "restarting", None, 1),
        ),
        addresses=Addresses(database_url="postgresql://a:b@h/x"),
        environment={"GIVEWAY_DATA": str(tmp_path)},
    )


def test_a_secret_is_made_once_and_only_its_owner_may_read_it(tmp_path):
    words = []
    threads = [
        threading.Thread(target=lambda: words.append(secret(tmp_path, "flower"))) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(words)) == 1
    assert len(words) == 8
    assert _mode(secret_path(tmp_path, "flower")) == 0o600
    assert _mode(secret_path(tmp_path, "flower").parent) == 0o700
    assert [path.name for path in (tmp_path / "secrets").iterdir()] == ["flower"]


def test_an_emptied_secret_is_an_error_and_not_an_empty_password(tmp_path):
    secret(tmp_path, "postgres")
    secret_path(tmp_path, "postgres").write_text("")
    with pytest.raises(ConfigError, match="is empty"):
        secret(tmp_path, "postgres")


def test_state_comes_back_as_it_was_written_and_is_private(tmp_path):
    state = _state(tmp_path, Birth(1, 2.0))
    write_state(tmp_path, state)
    assert read_state(tmp_path) == state
    assert _mode(tmp_path / "stack.json") == 0o600


def test_a_reused_pid_is_not_a_running_stack(tmp_path):
    ours = birth_of(__import__("os").getpid())
    write_state(tmp_path, _state(tmp_path, ours))
    assert environment_of(tmp_path) == {"GIVEWAY_DATA": str(tmp_path)}
    write_state(tmp_path, _state(tmp_path, Birth(ours.pid, ours.created_at - 60)))
    assert running_state(tmp_path) is None
    assert environment_of(tmp_path) is None


def test_no_state_is_no_stack_and_a_broken_one_names_the_file(tmp_path):
    assert environment_of(tmp_path / "nowhere") is None
    (tmp_path / "stack.json").write_text("{")
    with pytest.raises(ConfigError, match=r"stack\.json cannot be read"):
        read_state(tmp_path)
    (tmp_path / "stack.json").write_text(json.dumps({"version": 99}))
    with pytest.raises(ConfigError, match="another version"):
        read_state(tmp_path)


def test_a_second_holder_is_told_who_the_first_is(tmp_path):
    with lock.held(tmp_path), pytest.raises(StackRunning, match=r"pid \d+\); stop it with"):
        lock.check_free(tmp_path)
    lock.check_free(tmp_path)


def test_a_data_folder_that_cannot_be_is_a_clear_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot keep data in"), lock.held(tmp_path / "file"):
        pass


def test_ports_stay_the_same_for_a_folder_and_differ_between_folders(tmp_path):
    first = ports.choose(tmp_path, "postgres")
    assert ports.choose(tmp_path, "postgres") == first
    assert ports.choose(tmp_path / "other", "postgres") != first
    assert ports.choose(tmp_path, "postgres", taken=[first]) != first


def test_a_taken_port_is_passed_over_but_refused_where_it_was_asked_for(tmp_path):
    import socket

    port = ports.choose(tmp_path, "valkey")
    with socket.create_server((ports.HOST, port)):
        assert ports.choose(tmp_path, "valkey") != port
        with pytest.raises(UsageError, match=f"port {port} for valkey is taken"):
            ports.choose(tmp_path, "valkey", given=port)


def test_options_travel_to_the_background_unchanged(tmp_path):
    options = StackOptions(tmp_path, tmp_path / "giveway.toml", flower_port=5555, only=("batch",))
    assert StackOptions.from_json(options.as_json()) == options
    with pytest.raises(UnknownName, match="no process 'btach'; known: batch"):
        StackOptions(tmp_path, only=("btach",))


def test_a_broken_flower_history_is_moved_aside_and_a_good_one_is_kept(tmp_path):
    history = tmp_path / "flower" / "flower.db"
    tidying.readable_history(history)
    with dbm.dumb.open(str(history), "c") as good:
        good["events"] = b"x"
    kept = sorted(path.name for path in history.parent.iterdir())
    tidying.readable_history(history)
    assert sorted(path.name for path in history.parent.iterdir()) == kept
    for path in history.parent.iterdir():
        path.unlink()
    history.write_bytes(b"not a database at all")
    tidying.readable_history(history)
    assert [path.name.startswith("flower.db.broken-") for path in history.parent.iterdir()] == [
        True
    ]


def test_beat_never_meets_an_old_schedule(tmp_path):
    schedule = tmp_path / "beat" / "schedule"
    schedule.parent.mkdir()
    schedule.write_bytes(b"\0\1broken")
    (tmp_path / "beat" / "schedule.db").write_bytes(b"broken")
    tidying.without_schedule(schedule)
    assert list(schedule.parent.iterdir()) == []

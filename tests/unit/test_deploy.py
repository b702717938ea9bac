"""deploy/: the chart starts what `giveway up` does; dashboards and alarms name real metrics."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from app.local import commands
from app.local.options import BATCH, CONTROL, INTERACTIVE
from app.metrics import names
from app.settings import Settings, load
from tests.helm import rendered

DEPLOY = Path(__file__).parents[2] / "deploy"
CHART = DEPLOY / "helm/giveway"
SCALED = {"scaling": {"enabled": True}}
METRICS = {metric.name for metric in names.ALL}


def chart(**values: Any) -> dict[tuple[str, str], dict[str, Any]]:
    documents = rendered(CHART, "gw", **values)
    return {(one["kind"], one["metadata"]["name"]): one for one in documents}


def containers(**values: Any) -> dict[str, dict[str, Any]]:
    """By the name of what they belong to."""
    return {
        f"{name.removeprefix('gw-')}/{one['name']}": one
        for (_, name), document in chart(**values).items()
        if "template" in document.get("spec", {})
        for one in document["spec"]["template"]["spec"]["containers"]
    }


@pytest.mark.parametrize(
    ("container", "command"),
    [
        ("migrations/migrations", commands.migrations()),
        (
            "interactive/worker",
            commands.worker(INTERACTIVE, "interactive@%h", Settings().interactive_threads),
        ),
        ("batch/worker", commands.worker(BATCH, "batch@%h", Settings().batch_threads)),
        ("control/worker", commands.worker(CONTROL, "control@%h", Settings().control_threads)),
        ("beat/beat", commands.beat("/tmp/beat-schedule")),
        ("flower/flower", commands.flower("0.0.0.0", 5555, "/data/flower.db")),
        ("metrics/metrics", commands.metrics("0.0.0.0", 9464)),
    ],
)
def test_each_process_is_started_as_giveway_up_starts_it(container: str, command: tuple[str, ...]):
    assert containers()[container]["command"] == ["python", "-m", *command]


def test_nothing_else_is_started():
    assert set(containers()) == {
        *("migrations/migrations", "interactive/worker", "batch/worker", "control/worker"),
        *("beat/beat", "flower/flower", "metrics/metrics"),
    }


def test_values_reach_the_commands():
    made = containers(workers={"batch": {"threads": 21}}, metrics={"port": 9999})

    batch = made["batch/worker"]["command"]
    assert batch[batch.index("-c") + 1] == "21"
    assert made["metrics/metrics"]["command"][-1] == "9999"
    off = containers(flower={"enabled": False}, metrics={"enabled": False})
    assert {name for name in off if name.startswith(("flower", "metrics"))} == set()


def test_secrets_come_from_the_secret_alone():
    for name, one in containers(**SCALED).items():
        if name == "server/server":
            assert "env" not in one
            assert "envFrom" not in one
            continue
        assert one["envFrom"] == [{"secretRef": {"name": "giveway"}}]
        assert one["securityContext"]["readOnlyRootFilesystem"] is True
    flower = {one["name"]: one for one in containers()["flower/flower"]["env"]}
    assert flower["FLOWER_BASIC_AUTH"]["value"] == "giveway:$(GIVEWAY_FLOWER__PASSWORD)"
    assert list(flower).index("GIVEWAY_FLOWER__PASSWORD") < list(flower).index("FLOWER_BASIC_AUTH")


def test_no_service_of_a_release_called_giveway_looks_like_a_setting():
    """Kubernetes would set GIVEWAY_FLOWER_PORT in every pod, and unknown settings are refused."""
    pods = [
        one["spec"]["template"]["spec"]
        for one in chart(**SCALED).values()
        if "template" in one.get("spec", {})
    ]

    assert len(pods) == 8
    assert all(pod["enableServiceLinks"] is False for pod in pods)


def test_nothing_is_open_to_the_world():
    services = [one for (kind, _), one in chart().items() if kind == "Service"]

    assert {one["spec"]["type"] for one in services} == {"ClusterIP"}


def test_the_settings_it_ships_are_valid(tmp_path: Path):
    file = tmp_path / "giveway.toml"
    file.write_text(chart()["ConfigMap", "gw-settings"]["data"]["giveway.toml"])

    assert [one.name for one in load(file).endpoints] == ["gpu-a"]


def test_keda_asks_for_what_the_tick_writes(migrated_url: str):
    import psycopg

    found = chart(**SCALED)["ScaledObject", "gw-server"]["spec"]
    (trigger,) = found["triggers"]
    query = trigger["metadata"]["query"]
    with psycopg.connect(migrated_url) as connection:
        assert connection.execute(query).fetchone() == (0,)
        connection.execute("INSERT INTO scalers (pool, wanted, state) VALUES ('main', 3, '{}')")
        assert connection.execute(query).fetchone() == (3,)
    assert trigger["metadata"]["targetQueryValue"] == "1"
    assert (
        found["scaleTargetRef"]["name"]
        == chart(**SCALED)["Deployment", "gw-server"]["metadata"]["name"]
    )


def test_a_server_waits_until_it_has_left_the_pool():
    pod = chart(**SCALED)["Deployment", "gw-server"]["spec"]["template"]["spec"]
    server, join = pod["containers"]
    left = join["command"][join["command"].index("--left") + 1]
    grace = join["command"][join["command"].index("--grace") + 1]

    assert left in server["lifecycle"]["preStop"]["exec"]["command"][-1]
    assert {"name": "shared", "mountPath": str(Path(left).parent)} in join["volumeMounts"]
    assert {"name": "shared", "mountPath": str(Path(left).parent)} in server["volumeMounts"]
    assert int(grace.removesuffix("s")) < pod["terminationGracePeriodSeconds"]


@pytest.mark.skipif(shutil.which("helm") is None, reason="helm is not installed")
@pytest.mark.parametrize("values", [{}, SCALED])
def test_helm_makes_the_same_of_it(values: dict[str, Any]):
    flags = ["--set", "scaling.enabled=true"] if values else []
    made = subprocess.run(
        ["helm", "template", "gw", str(CHART), *flags], capture_output=True, text=True, check=True
    )
    documents = [one for one in yaml.safe_load_all(made.stdout) if one]

    assert {(o["kind"], o["metadata"]["name"]): o for o in documents} == chart(**values)


def metrics_in(text: str) -> set[str]:
    return set(re.findall(r"\bgiveway_[a-z_]+", text))


def test_the_dashboard_shows_metrics_that_exist_and_all_that_matter():
    dashboard = json.loads((DEPLOY / "grafana/giveway.json").read_text())
    shown = {
        name
        for panel in dashboard["panels"]
        for target in panel.get("targets", ())
        for name in metrics_in(target["expr"])
    }

    assert shown <= METRICS
    assert len(shown) >= 12
    ids = [panel["id"] for panel in dashboard["panels"]]
    assert len(ids) == len(set(ids))


def test_alarms_and_scrapes_are_valid_and_name_metrics_that_exist():
    alerts = yaml.safe_load((DEPLOY / "prometheus/alerts.yml").read_text())
    rules = [rule for group in alerts["groups"] for rule in group["rules"]]
    scrape = yaml.safe_load((DEPLOY / "prometheus/prometheus.yml").read_text())

    assert len(rules) == 4
    for rule in rules:
        assert metrics_in(rule["expr"]) <= METRICS
        assert rule["annotations"]["summary"]
    assert scrape["scrape_configs"][0]["static_configs"][0]["targets"] == ["metrics:9464"]
    assert scrape["rule_files"] == ["alerts.yml"]


def test_the_documentation_lists_every_metric():
    text = (Path(__file__).parents[2] / "docs/howto/report.md").read_text()

    assert metrics_in(text) == METRICS

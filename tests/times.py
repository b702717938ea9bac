"""Where the time of a run goes: a table by group at its end, and what files took before.

`tests/times.json` holds the seconds of each file that takes some, so that what is long begins
first. `--write-times` writes it anew.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import waiting

_FILE = Path(__file__).with_name("times.json")
_GROUPS = ("unit", "contracts", "integration", "acceptance")
_ON_NODES = ("tests/integration/worker/", "tests/acceptance/")
_WORTH_S = 2.0

_known: dict[str, float] = json.loads(_FILE.read_text()) if _FILE.exists() else {}
RABBITMQ_S = _known.get("rabbitmq", 120.0)
"""What all tests on RabbitMQ take together."""


def seconds_of(test: str) -> float:
    """What the file of this test took when times were last written; 0: not worth a line."""
    return _known.get(test.partition("::")[0], 0.0)


def on_rabbitmq(test: str) -> bool:
    """Whether it needs a node, by its name."""
    return test.startswith(_ON_NODES) and "rabbitmq" in test


def pytest_addoption(parser: pytest.Parser) -> None:
    """One flag."""
    parser.addoption("--write-times", action="store_true", help="write tests/times.json anew")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """Each report carries what was waited for and started since the one before."""
    report = yield
    report.user_properties.append(("spent", dict(waiting.spent_s), waiting.started["stacks"]))
    for what in waiting.spent_s:
        waiting.spent_s[what] = 0.0
    waiting.started["stacks"] = 0
    return report


class _Tally:
    """Seconds by group, by file and by what they went to."""

    def __init__(self) -> None:
        self.tests: Counter[str] = Counter()
        self.groups: defaultdict[str, float] = defaultdict(float)
        self.files: defaultdict[str, float] = defaultdict(float)
        self.spent: defaultdict[str, float] = defaultdict(float)
        self.stacks = 0

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        file = report.nodeid.partition("::")[0]
        group = next((one for one in _GROUPS if file.startswith(f"tests/{one}/")), "other")
        self.tests[group] += report.when == "call"
        self.groups[group] += report.duration
        self.files["rabbitmq" if on_rabbitmq(report.nodeid) else file] += report.duration
        for name, seconds, stacks in (p for p in report.user_properties if p[0] == "spent"):
            assert name == "spent"
            self.stacks += stacks
            for what, spent in seconds.items():
                self.spent[what] += spent

    def lines(self) -> list[str]:
        """The table."""
        rows = [f"{'seconds':>9} {'tests':>7}  group"]
        rows += [
            f"{seconds:>9.0f} {self.tests[group]:>7}  {group}"
            for group, seconds in sorted(self.groups.items(), key=lambda pair: -pair[1])
        ]
        rows += [
            f"{seconds:>9.0f} {'':>7}  of that: {what}" for what, seconds in self.spent.items()
        ]
        return [*rows, f"{self.stacks:>9} {'':>7}  whole stacks started"]

    def write(self) -> None:
        """What is worth a line."""
        worth = {name: round(s, 1) for name, s in sorted(self.files.items()) if s >= _WORTH_S}
        _FILE.write_text(json.dumps(worth, indent=1) + "\n")


def pytest_configure(config: pytest.Config) -> None:
    """Only where reports are seen: in the process that a person started."""
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Tally(), "giveway-times")


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Print the table of a run that is worth one."""
    tally = config.pluginmanager.get_plugin("giveway-times")
    if tally is None or sum(tally.groups.values()) < 10:
        return
    terminalreporter.section("where the time went, over all processes")
    for line in tally.lines():
        terminalreporter.write_line(line)
    if config.getoption("--write-times"):
        tally.write()

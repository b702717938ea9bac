"""`giveway report` and `giveway metrics`, as people, Chromium and Prometheus see them."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import threading
import urllib.request
import uuid
from collections.abc import Iterator
from html.parser import HTMLParser
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from app.metrics import names
from tests.commands import done, giveway
from tests.rig import Rig

EVIL = "<script>alert(1)</script>\"'&"
CHROMIUM = shutil.which("chromium")


@pytest.fixture
def busy(stack: Rig) -> Rig:
    """A stack with something of everything, and a job's key that is an attack."""
    one = stack
    job = one.submit([f"text {n}" for n in range(120)], key=EVIL).job
    one.work(job.id, most=1)
    for number in range(40):
        one.execute(
            "INSERT INTO interactive_requests (id, pool, task_type, model, endpoint, state,"
            " submitted_at, started_at, first_token_at, finished_at, completion_tokens, error_code)"
            " SELECT :id, 'main', 'chat', 'fake-chat', 'sim', 'done', at - interval '0.4 s',"
            " at - interval '0.3 s', at - interval '0.2 s', at, 8, :error"
            " FROM (SELECT now() - make_interval(secs => :n * 80) AS at) t",
            id=uuid.uuid4(),
            n=number,
            error=None if number % 5 != 1 else "overloaded",
        )
    one.execute(
        "INSERT INTO throttle_decisions (pool, computed_at, value, pressure, reason, arguments,"
        " result) SELECT 'main', now() - make_interval(secs => n * 60), n % 7, 0.5, 'raise',"
        " '{}', '{}' FROM generate_series(0, 59) n;"
        "INSERT INTO events (type, pool, facts) VALUES ('scaled_out', 'main',"
        ' \'{"wanted": 2, "reason": "<img src=x onerror=alert(1)>"}\')'
    )
    return one


def test_json_is_one_document_of_the_documented_shape(busy: Rig) -> None:
    found = done("report", "--since", "1h")
    reference = (Path(__file__).parents[3] / "docs/reference/report.md").read_text()
    named = set(re.findall(r"`([a-z0-9_]+)`", reference))

    def keys(value: Any) -> Iterator[str]:
        match value:
            case dict():
                for key, inner in value.items():
                    if key not in ("facts", "failed_by_code"):
                        yield key
                        yield from keys(inner)
            case list():
                for inner in value:
                    yield from keys(inner)

    assert set(keys(found)) - named == set()
    assert found["pools"][0]["people"]["requests"] == 40
    assert found["jobs"][0]["key"] == EVIL


def test_the_terminal_gets_tables(busy: Rig) -> None:
    ran = giveway("report")

    assert ran.code == 0
    for word in ("backlog", "on target", "endpoints", "overloaded", "scaled out", "P95"):
        assert word in ran.out
    assert "\nscaling\n" in ran.out
    assert "no prices set" in ran.out
    assert "money 0.0000" not in ran.out
    assert " rough)" not in ran.out


def test_a_guess_at_tokens_says_that_it_is_one(busy: Rig, tmp_path: Path) -> None:
    busy.execute("UPDATE interactive_requests SET rough = true")
    told = re.compile(r"\(320 rough\)")
    assert len(told.findall(giveway("report").out)) == 2  # The endpoint's, and those of all.
    assert len(told.findall(written(busy, tmp_path / "report.html"))) == 2


def test_the_page_has_all_that_the_terminal_has(busy: Rig, tmp_path: Path) -> None:
    page = written(busy, tmp_path / "report.html")
    found = done("report")
    for heading in ("Pool main", "Endpoints", "Jobs", "Errors", "Scaling", "Events"):
        assert f"<h2>{heading}</h2>" in page
    for name in (
        "Limit on batch",
        "What people wait, at P95, and what batch gets done",
        "Places in use",
        "Errors, by code",
    ):
        assert f"<h3>{name}" in page
    for told in ("backlog", "oldest wait", "in flight", "on target", "first token", "whole answer"):
        assert f"<dt>{told}" in page
    (endpoint,) = found["endpoints"]
    assert f">{endpoint['finished']}</td>" in page


def test_nothing_is_no_span_and_a_missing_folder_is_said(stack: Rig) -> None:
    assert giveway("report", "--since", "0s").code == 2
    ran = giveway("report", "--html", "nowhere/at/all.html")
    assert (ran.code, "there is no such folder" in ran.err) == (2, True)


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.links += [
            v or "" for name, v in attrs if name in ("src", "href", "xlink:href", "data")
        ]


def written(one: Rig, path: Path) -> str:
    assert giveway("report", "--html", str(path)).code == 0
    return path.read_text()


def test_the_page_is_escaped_and_names_no_other_address(busy: Rig, tmp_path: Path) -> None:
    page = written(busy, tmp_path / "report.html")
    parser = _Tags()
    parser.feed(page)

    assert set(parser.links) == {"data:,"}
    assert not {"script", "img", "iframe", "object", "embed", "form"} & set(parser.tags)
    assert "&lt;script&gt;alert(1)" in page
    assert "@import" not in page
    assert "url(" not in page
    assert re.findall(r"\bon[a-z]+=", re.sub(r"<td.*?</td>", "", page)) == []


class _Server:
    """Serves one page and notes everything that is asked for."""

    def __init__(self, page: str) -> None:
        self.asked: list[str] = []
        asked = self.asked

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                asked.append(self.path)
                body = page.encode()
                self.send_response(200 if self.path == "/report.html" else 404)
                self.send_header("content-type", "text/html; charset=utf-8")
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever)

    def __enter__(self) -> _Server:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join(5)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_port}/report.html"


def chromium(url: str, profile: Path, *more: str) -> subprocess.CompletedProcess[str]:
    """Chromium without a head. Every address but this machine's is a failure that it logs."""
    assert CHROMIUM
    return subprocess.run(
        [
            CHROMIUM,
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--disable-background-networking",
            "--no-first-run",
            f"--user-data-dir={profile}",
            "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
            "--enable-logging=stderr",
            "--v=0",
            *more,
            url,
        ],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )


@pytest.mark.chromium
@pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")
def test_chromium_draws_it_asks_for_nothing_else_and_has_nothing_to_say(
    busy: Rig, tmp_path: Path
) -> None:
    page = written(busy, tmp_path / "report.html")
    with _Server(page) as server:
        ran = chromium(server.url, tmp_path / "profile", "--dump-dom")

    assert server.asked == ["/report.html"]
    assert [line for line in ran.stderr.splitlines() if ":CONSOLE" in line] == []
    assert ran.stdout.count('<path class="l') >= 4
    assert ran.stdout.count('<rect class="b') >= 6
    assert "<script" not in ran.stdout


@pytest.mark.chromium
@pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")
def test_the_check_itself_sees_a_page_that_asks_and_errs(tmp_path: Path) -> None:
    bad = "<img src='/other.png'><script>console.error('no'); undefined.x</script>"
    with _Server(bad) as server:
        ran = chromium(server.url, tmp_path / "profile", "--dump-dom")

    assert "/other.png" in server.asked
    assert [line for line in ran.stderr.splitlines() if ":CONSOLE" in line]


@pytest.mark.chromium
@pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")
@pytest.mark.parametrize(("scheme", "light"), [("light", True), ("dark", False)])
def test_it_is_readable_in_light_and_dark(
    busy: Rig, tmp_path: Path, scheme: str, light: bool
) -> None:
    page = written(busy, tmp_path / "report.html")
    # The page has no script, so one is put in here that says how it looks.
    asking = (
        "<script>addEventListener('load', () => { const s = getComputedStyle(document.body);"
        "document.title = s.backgroundColor + '|' + s.color; });</script></head>"
    )
    page = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", page)
    page = page.replace("</head>", asking)
    with _Server(page) as server:
        flag = () if light else ("--force-dark-mode", "--blink-settings=preferredColorScheme=0")
        ran = chromium(server.url, tmp_path / "profile", *flag, "--dump-dom")
    title = re.search(r"<title>(.*?)</title>", ran.stdout)
    assert title
    back, text = ([int(n) for n in re.findall(r"\d+", part)[:3]] for part in title[1].split("|"))

    assert contrast(back, text) > 7
    assert (sum(back) > sum(text)) is light


def contrast(one: list[int], other: list[int]) -> float:
    """By the accessibility guidelines' formula."""

    def luminance(rgb: list[int]) -> float:
        parts = [c / 255 / 12.92 if c <= 10 else ((c / 255 + 0.055) / 1.055) ** 2.4 for c in rgb]
        return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]

    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def values(page: str) -> dict[str, dict[tuple[str, ...], float]]:
    """By metric, and by its labels in their order."""
    labels = {metric.name: metric.labels for metric in names.ALL}
    return {
        family.name: {
            tuple(sample.labels[label] for label in labels[family.name]): sample.value
            for sample in family.samples
        }
        for family in text_string_to_metric_families(page)
    }


def test_metrics_tell_how_things_stand_and_name_no_job(busy: Rig) -> None:
    ran = giveway("metrics")
    found = values(ran.out)

    assert ran.code == 0
    assert set(found) == {metric.name for metric in names.ALL}
    assert found["giveway_limit"] == {("main",): 31}
    assert found["giveway_backlog_items"] == {("main",): 70}
    assert found["giveway_backlog_requests"] == {("main",): 7}
    assert found["giveway_endpoint_state"] == {("main", "sim", "ready"): 1}
    assert found["giveway_people_latency_seconds"]["main", "whole", "0.95"] == pytest.approx(0.4)
    assert "script" not in ran.out
    labels = {label for metric in names.ALL for label in metric.labels}
    assert labels == {"pool", "class", "part", "quantile", "endpoint", "state"}


def test_metrics_are_served_and_a_database_that_is_away_is_an_error(
    busy: Rig, tmp_path: Path
) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "app.cli.main", "metrics", "--serve", "--port", "0"],
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout
            url = process.stdout.readline().split()[-1]
            with urllib.request.urlopen(url, timeout=10) as answer:
                assert values(answer.read().decode())["giveway_limit"] == {("main",): 31}
        finally:
            process.terminate()
            process.wait(10)
    assert process.returncode == 0

"""The built wheel with no extra, and with each alone: what is missing is said before all work."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest

from tests.integration.cli.conftest import stack  # noqa: F401
from tests.integration.conftest import endpoint, quick_server, rig  # noqa: F401
from tests.rig import Rig

ROOT = Path(__file__).parents[2]
EXTRAS = sorted(
    tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"].keys()
    - {"dev"}
)
GIVEN = (
    *("answers.jsonl", "--input-field", "question", "--expected-field", "answer"),
    *("--output-field", "solution", "--no-wait"),
)
NEEDS = [
    (["eval", "run", *GIVEN, "--scorer", "exact", "--key", "scored"], "evaluate"),
    (["eval", "run", *GIVEN, "--scorer", "rouge_l", "--key", "rouge"], "evaluate"),
    (["eval", "show", "there"], "evaluate"),
    (["eval", "compare", "there", "there"], "evaluate"),
    (["submit", "evaluate", "answers.jsonl", "--scorers", "bleu"], "evaluate"),
    (["submit", "embed", "docs.parquet"], "parquet"),
    (["results", "there", "--output", "results.parquet"], "parquet"),
    (["submit", "embed", "--source", "hf:docs@train", "--collection", "c"], "datasets"),
    (["simulate", "--chart", "chart.png", "--seeds", "1"], "charts"),
    (["calibrate", "--chart", "chart.png"], "charts"),
]
"""Commands that need an extra, and which."""
MODULES = {
    "evaluate": "scipy",
    "parquet": "pyarrow",
    "datasets": "datasets",
    "charts": "matplotlib",
    "pandas": "pandas",
}
"""By which each is known; one extra may bring what another is for."""

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from the sources alone, unpacked."""
    folder = tmp_path_factory.mktemp("wheel")
    sources = folder / "sources"
    sources.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, sources)
    for name in ("app", "migrations"):
        shutil.copytree(
            ROOT / name, sources / name, ignore=shutil.ignore_patterns("__pycache__", ".*")
        )
    build = (sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation")
    subprocess.run([*build, "--wheel-dir", folder, sources], check=True, timeout=300)
    (wheel,) = folder.glob("giveway-*.whl")
    with zipfile.ZipFile(wheel) as file:
        file.extractall(folder / "there")
    return folder / "there"


@pytest.mark.parametrize("extra", ["", *EXTRAS])
def test_every_command_works_or_says_what_to_install(
    installed: Path,
    stack: Rig,  # noqa: F811
    tmp_path: Path,
    extra: str,
) -> None:
    (tmp_path / "answers.jsonl").write_text('{"question": "q", "answer": "1", "solution": "1"}\n')
    (tmp_path / "docs.parquet").write_bytes(b"PAR1")
    stack.work(stack.submit(["a"], key="there").job.id)
    asked = [arguments for arguments, _ in NEEDS if not _is_long(arguments, extra)]
    ran = subprocess.run(
        [sys.executable, Path(__file__).with_name("installed.py"), installed, extra],
        input=json.dumps(asked),
        env=os.environ | {"PYTHONWARNINGS": "ignore"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
    found: dict[str, Any] = json.loads(ran.stdout)
    assert found["unimportable"] == {}
    done = {said: (code, out, error) for said, code, out, error in found["done"]}
    assert len(done) > 50
    for said, (code, out, error) in done.items():
        faults = [word for word in FAULTS if word in out + error]
        assert not faults, f"{said}: {code} {error[-600:]}"
    for arguments, needed in NEEDS:
        if _is_long(arguments, extra):
            continue
        code, _, error = done[" ".join(arguments)]
        is_told = f"pip install 'giveway[{needed}]'" in error
        is_gone = MODULES[needed] in found["gone"]
        assert is_told == is_gone, f"{' '.join(arguments)}: {code} {error}"
        if is_told:
            assert code != 0
    assert extra not in MODULES or MODULES[extra] not in found["gone"]
    keys = {key for (key,) in stack.rows("SELECT key FROM jobs")}
    assert keys == ({"there", "scored", "rouge"} if extra == "evaluate" else {"there"})


FAULTS = ("ModuleNotFoundError", "ImportError", "bug in Giveway", "Traceback", "No module named")


def _is_long(arguments: list[str], extra: str) -> bool:
    """What would really draw a picture, or go to the hub."""
    return extra in ("charts", "datasets") and (
        arguments[0] in ("simulate", "calibrate") or "hf:docs@train" in arguments
    )

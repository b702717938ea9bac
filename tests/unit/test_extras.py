"""What an optional package is missing for is said with the line that installs it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from app.errors import MissingPart
from app.extras import need
from tests.commands import giveway


def test_what_is_missing_is_named_with_what_it_is_for_and_the_line_that_installs_it() -> None:
    need("this needs", "evaluate", ["json"])
    with pytest.raises(MissingPart) as told:
        need("this needs", "evaluate", ["json", "no_such_module"])
    line = "this needs no_such_module; install it with: pip install 'giveway[evaluate]'"
    assert str(told.value) == line


@pytest.mark.parametrize("is_there", [True, False])
def test_a_tokenizer_file_that_nothing_can_read_is_told_when_settings_are_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_there: bool
) -> None:
    if not is_there:
        monkeypatch.setitem(sys.modules, "tokenizers", None)
    file = tmp_path / "giveway.toml"
    file.write_text(
        '[[endpoints]]\nname = "x"\nbase_url = "http://127.0.0.1:9/v1"\nmodels = ["m"]\n'
        'tokenizer = "tokenizer.json"\n'
    )
    if is_there:
        assert giveway("config", "check", "--config", str(file)).code == 0
    else:
        told = giveway("config", "check", "--config", str(file))
        line = "tokenizers; install it with: pip install 'giveway[tokens]'"
        assert (told.code != 0, line in told.err) == (True, True)

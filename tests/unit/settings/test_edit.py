"""Values change in giveway.toml; everything that a person wrote around them stays."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from app.errors import ConfigError
from app.settings import EndpointSettings, PoolSettings, Settings, edit

FILE = """\
# mine
[throttle]
window_s = 5

# the card in the cellar
[[pools]]
name = "main"   # people
total = 8       # places
target_p95_ms = 500

# another
[[pools]]
name = "other"
[pools.options]
aim = 0.8

# the end
[[endpoints]]
name = "sim"
base_url = "http://x/v1"
models = ["a"]
"""


def test_a_value_changes_and_nothing_else_does() -> None:
    after = edit.with_pool(FILE, "main", {"total": 16})

    assert after == FILE.replace("total = 8 ", "total = 16 ")


def test_new_values_stand_with_their_table_and_not_under_the_next_comment() -> None:
    after = edit.with_pool(FILE, "main", {"people_capacity": 9})

    assert after == FILE.replace("_ms = 500\n", "_ms = 500\npeople_capacity = 9\n")


def test_a_table_of_options_keeps_its_place() -> None:
    after = edit.with_endpoint(
        edit.with_pool(FILE, "other", {"total": 3}), "sim", {"max_batch_items": 32}
    )

    read = tomllib.loads(after)
    assert read["pools"][1] == {"name": "other", "total": 3, "options": {"aim": 0.8}}
    assert read["endpoints"][0]["max_batch_items"] == 32
    assert [line for line in after.splitlines() if line.startswith("#")] == [
        "# mine",
        "# the card in the cellar",
        "# another",
        "# the end",
    ]


def test_pools_written_in_one_line_are_changed_there() -> None:
    after = edit.with_pool('pools = [{name = "main", total = 8}] # x\n', "main", {"batch_max": 2})

    assert tomllib.loads(after) == {"pools": [{"name": "main", "total": 8, "batch_max": 2}]}
    assert after.endswith("# x\n")


@pytest.mark.parametrize("text", ["", "[throttle]\nwindow_s = 5", "# only a word\n"])
def test_a_file_without_pools_gets_one(text: str) -> None:
    after = edit.with_pool(text, "main", {"total": 3})

    assert after.startswith(text)
    assert tomllib.loads(after)["pools"] == [{"name": "main", "total": 3}]


def test_line_ends_of_windows_stay(tmp_path: Path) -> None:
    file = tmp_path / "giveway.toml"
    file.write_bytes(FILE.replace("\n", "\r\n").encode())

    edit.save(file, edit.with_pool(edit.read(file), "main", {"total": 16}))

    lines = file.read_bytes().split(b"\n")
    assert b"total = 16       # places\r" in lines
    assert all(line.endswith(b"\r") for line in lines[:-1])


def test_a_pool_or_endpoint_that_is_not_there_is_named_with_those_that_are() -> None:
    with pytest.raises(ConfigError, match="no 'gpu' among its pools; it has: main, other"):
        edit.with_pool(FILE, "gpu", {})
    with pytest.raises(ConfigError, match="no 'gpu' among its endpoints; it has: sim"):
        edit.with_endpoint(FILE, "gpu", {})


def test_what_would_not_be_right_is_not_saved(tmp_path: Path) -> None:
    file = tmp_path / "giveway.toml"
    file.write_text(FILE)
    with pytest.raises(ConfigError, match="batch_min <= batch_max"):
        edit.save(file, edit.with_pool(FILE, "main", {"batch_max": 8}))

    assert file.read_text() == FILE
    assert list(tmp_path.iterdir()) == [file]


def test_saving_keeps_the_mode_and_follows_a_link(tmp_path: Path) -> None:
    file, link = tmp_path / "real.toml", tmp_path / "giveway.toml"
    file.write_text(FILE)
    file.chmod(0o640)
    link.symlink_to(file)

    edit.save(link, edit.with_pool(FILE, "main", {"total": 9}))

    assert link.is_symlink()
    assert "total = 9 " in file.read_text()
    assert file.stat().st_mode & 0o777 == 0o640


def test_a_whole_new_file_is_the_settings_it_was_made_of() -> None:
    pool = PoolSettings(name="main", total=8, target_p95_ms=700, policy="pressure")
    endpoint = EndpointSettings(
        name="sim", base_url="http://x/v1", models=("a", "b"), api_key_env="KEY"
    )
    text = edit.whole(
        pool, {"total": 4, "batch_max": 3}, [endpoint], {"sim": {"max_batch_items": 5}}
    )

    made = Settings(**tomllib.loads(text))
    assert made.pools == (
        PoolSettings(name="main", total=4, batch_max=3, target_p95_ms=700, policy="pressure"),
    )
    assert made.endpoints == (endpoint.model_copy(update={"max_batch_items": 5}),)

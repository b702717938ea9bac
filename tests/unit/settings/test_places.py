"""Line numbers of keys in TOML: right, or not given."""

from __future__ import annotations

import pytest

from app.settings.places import line_of, places

TEXT = '''\
# comment with [brackets] = 1
log_level = "INFO"   # trailing ] }

[throttle]
tick_s = 1.0
"quoted \\"key\\"".'dotted' . bare = """
[not.a.table]
x = 1 \\""" ""\\
"""

[[pools]]
name = "main"
options = { gain = 1, "a b" = [1, 2] }

[[pools]]
name = 'second'
matrix = [[1], [], [
  2, # two
  { deep = true },
]]
when = 2026-01-01T00:00:00Z

[[pools.nested]]
x = \'\'\'
y = 2\'\'\'\'
[pools.nested.more]
z = 0
[[pools.nested]]

[a.b.c]
d.e = 1
'''


@pytest.mark.parametrize(
    ("path", "line"),
    [
        (("log_level",), 2),
        (("throttle",), 4),
        (("throttle", "tick_s"), 5),
        (("throttle", 'quoted "key"', "dotted", "bare"), 6),
        (("pools",), 11),
        (("pools", 0, "name"), 12),
        (("pools", 0, "options", "gain"), 13),
        (("pools", 0, "options", "a b", 1), 13),
        (("pools", 1), 15),
        (("pools", 1, "name"), 16),
        (("pools", 1, "matrix", 2, 0), 18),
        (("pools", 1, "matrix", 2, 1, "deep"), 19),
        (("pools", 1, "nested", 0, "x"), 24),
        (("pools", 1, "nested", 0, "more", "z"), 27),
        (("pools", 1, "nested", 1), 28),
        (("a", "b", "c", "d", "e"), 31),
    ],
)
def test_every_key_has_its_line(path: tuple[str | int, ...], line: int) -> None:
    assert places(TEXT)[path] == line
    assert places(TEXT.replace("\n", "\r\n"))[path] == line


def test_a_key_that_is_not_there_falls_back_to_its_table() -> None:
    known = places(TEXT)

    assert line_of(known, ("pools", 1, "total")) == 15
    assert line_of(known, ("throttle", "missing", 3)) == 4
    assert line_of(known, ("nowhere",)) is None
    assert line_of(known, ()) is None


@pytest.mark.parametrize("text", ["", "not toml", "a = [1,", 'a = "', "[", "a"])
def test_text_that_is_no_toml_has_no_lines(text: str) -> None:
    assert places(text) == {}

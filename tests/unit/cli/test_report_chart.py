"""From numbers to the points of a chart."""

from __future__ import annotations

import re

import pytest

from app.cli.parts.report_chart import HEIGHT, WIDTH, bar_chart, line_chart


def points(path: str) -> list[tuple[float, float]]:
    return [(float(x), float(y)) for x, y in re.findall(r"[ML]([\d.]+) ([\d.]+)", path)]


def test_a_line_runs_from_left_to_right_and_high_is_up():
    (line,) = line_chart("t", "", 4, [("a", [0, 5, 10, 10])]).lines
    xs, ys = zip(*points(line.path), strict=True)

    assert list(xs) == sorted(xs)
    assert (ys[0], ys[2], ys[3]) == (HEIGHT, HEIGHT / 2, 0)
    assert 0 < xs[0] < xs[-1] < WIDTH


def test_where_nothing_is_known_there_is_a_gap_and_a_lone_value_shows():
    (line,) = line_chart("t", "", 5, [("a", [1, None, 1, 1, None])]).lines

    assert line.path.count("M") == 2
    assert len(points(line.path)) == 5


def test_nothing_at_all_is_empty():
    assert line_chart("t", "", 3, [("a", [None, None, None])]).is_empty
    assert bar_chart("t", 3, []).is_empty
    assert not bar_chart("t", 3, [("a", [0, 1, 0])]).is_empty


@pytest.mark.parametrize(
    ("most", "top"), [(0, "1"), (3, "5"), (5, "5"), (61, "100"), (0.02, "0.02")]
)
def test_the_scale_ends_at_a_round_number(most: float, top: str):
    assert line_chart("t", "", 1, [("a", [most])]).ticks[-1].says == top


def test_the_goal_is_within_the_picture():
    chart = line_chart("t", " ms", 1, [("a", [10])], goal=500)

    assert chart.goal_y is not None
    assert 0 <= chart.goal_y < HEIGHT


def test_bars_stand_on_each_other():
    chart = bar_chart("t", 2, [("a", [1, 0]), ("b", [1, 2])])
    first, second, third = chart.bars

    assert (first.y + first.height, second.y + second.height) == (HEIGHT, first.y)
    assert (third.y, third.says) == (0, "b: 2")
    assert first.x + first.width < third.x


def test_colours_begin_anew_after_the_last():
    chart = line_chart("t", "", 1, [(str(n), [1]) for n in range(10)])

    assert [line.colour for line in chart.lines] == [0, 1, 2, 3, 4, 5, 6, 7, 0, 1]


def test_a_value_without_neighbours_is_a_dot():
    (line,) = line_chart("t", "", 4, [("a", [5, None, 1, 1])]).lines
    assert line.dots == [(80.0, 0.0)]
    (line,) = line_chart("t", "", 1, [("a", [10])]).lines
    assert line.dots == [(320.0, 0.0)]


def test_two_scales_share_one_time_axis():
    chart = line_chart("t", " ms", 2, [("people", [500, 400])], right=(" items/s", [("b", [3, 4])]))
    people, batch = chart.lines
    assert [tick.says for tick in chart.ticks] == ["0 ms", "250 ms", "500 ms"]
    assert [tick.says for tick in chart.right_ticks] == ["0 items/s", "2.5 items/s", "5 items/s"]
    assert (people.last, batch.last) == ("400 ms", "4 items/s")
    assert people.colour != batch.colour

from app.local.restarts import MOST_IN_ROW, QUICK_S, deaths_in_row, delay_s


def test_the_first_death_is_followed_by_a_start_at_once():
    assert delay_s(1) == 0.0


def test_quick_deaths_in_a_row_wait_longer_each_time_and_then_give_up():
    delays = [delay_s(number) for number in range(1, MOST_IN_ROW + 1)]
    assert delays == [0.0, 0.5, 1.0, 2.0, None]


def test_one_that_has_run_a_while_begins_a_new_row():
    assert deaths_in_row(4, QUICK_S) == 1
    assert deaths_in_row(3, QUICK_S - 0.1) == 4

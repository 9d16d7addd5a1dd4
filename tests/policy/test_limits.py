"""A rate is kept in every window, and nobody enters where there is no room."""

from collections import Counter
from collections.abc import Sequence
from datetime import timedelta

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from duly.model.limit import Rate
from duly.policy.limits import (
    NO_LIMIT,
    PATIENCE,
    Admission,
    Candidate,
    LimitUsage,
    believable,
    choose,
    enter,
    free_places,
    looks_again,
    opens_at,
    pace,
    why_full,
)

MICROSECOND = timedelta(microseconds=1)
NOW = 1_800_000_000_000_000

rates = st.builds(
    Rate,
    st.integers(1, 300) | st.sampled_from([1_000, 3_000, 50_000, 1_000_000]),
    st.sampled_from([1, 7, 10, 19, 20, 21, 40, 999, 1_000, 10_000, 60_000, 3_600_000]).map(
        lambda milliseconds: timedelta(milliseconds=milliseconds)
    ),
)


def length(rate: Rate) -> int:
    return rate.period // MICROSECOND


def let_in(rate: Rate, asks: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """When how many entered, of those who asked after so many microseconds."""
    usage, now, entered = LimitUsage(rate=rate), NOW, []
    for wait, count in asks:
        now += wait
        taken = min(count, free_places(usage, now))
        usage = enter(usage, taken, now)
        entered.append((now, taken))
    return entered


def fullest_window(rate: Rate, entered: Sequence[tuple[int, int]]) -> int:
    """The most that came in any one period: the fullest window begins with an entry."""
    return max(
        sum(count for at, count in entered if start <= at < start + length(rate))
        for start, _ in entered
    )


@st.composite
def asks(draw: st.DrawFn, rate: Rate) -> list[tuple[int, int]]:
    interval, burst = pace(rate)
    period = length(rate)
    waits = st.integers(0, 2 * period) | st.sampled_from(
        [0, 1, interval - 1, interval, interval + 1, period - interval, period - 1, period]
    )
    counts = st.sampled_from([1, 2, burst, burst + 1, rate.count, rate.count + 1, NO_LIMIT])
    return draw(st.lists(st.tuples(waits.map(lambda wait: max(wait, 0)), counts), min_size=1))


@given(st.data(), rates)
def test_no_period_wherever_it_begins_has_more_than_the_rate_says(
    data: st.DataObject, rate: Rate
) -> None:
    assert fullest_window(rate, let_in(rate, data.draw(asks(rate)))) <= rate.count


@given(rates)
@example(Rate(1, timedelta(milliseconds=10)))
@example(Rate(1_000_000, timedelta(seconds=1)))
def test_steady_demand_gets_nearly_what_the_rate_says(rate: Rate) -> None:
    interval, burst = pace(rate)
    steady = let_in(rate, [(0, NO_LIMIT), *[(interval, NO_LIMIT)] * 200])
    assert fullest_window(rate, steady) <= rate.count
    assert [count for _, count in steady] == [burst, *[1] * 200]
    in_every_period = -(-length(rate) // interval)
    assert in_every_period >= rate.count - burst + 1


@given(rates)
def test_of_a_rate_so_many_come_together_as_fall_into_a_moment(rate: Rate) -> None:
    interval, burst = pace(rate)
    assert 1 <= burst <= rate.count
    assert interval >= 1
    assert free_places(LimitUsage(rate=rate), NOW) == burst


@pytest.mark.parametrize(
    ("rate", "interval", "burst"),
    [
        ("1/s", 1_000_000, 1),
        ("5/s", 200_000, 1),
        ("3/10s", 3_333_334, 1),
        ("100/m", 600_000, 1),
        ("1000/s", 1_020, 20),
        ("1/10ms", 10_000, 1),
        ("5/10ms", 10_000, 5),
    ],
)
def test_the_pace_of_a_rate(rate: str, interval: int, burst: int) -> None:
    assert pace(Rate.parse(rate)) == (interval, burst)


@given(st.data(), rates)
def test_a_rate_opens_exactly_when_it_says(data: st.DataObject, rate: Rate) -> None:
    usage, now = LimitUsage(rate=rate), NOW
    for wait, count in data.draw(asks(rate)):
        now += wait
        usage = enter(usage, min(count, free_places(usage, now)), now)
        opening = opens_at(usage)
        assert opening is not None
        if free_places(usage, now) == 0:
            assert free_places(usage, opening) >= 1
            assert free_places(usage, opening - 1) == 0


@given(rates, rates, st.integers(0, 10**9))
def test_another_rate_counts_after_one_of_its_own_periods(
    before: Rate, rate: Rate, wait: int
) -> None:
    usage = enter(LimitUsage(rate=before), pace(before).burst, NOW)
    now = NOW + wait
    changed = believable(LimitUsage(rate=rate, arrival=usage.arrival), now)
    assert free_places(changed, now + length(rate) + pace(rate).interval) >= 1
    assert believable(changed, now) == changed


@given(st.data(), rates)
def test_what_a_rate_led_to_is_believed(data: st.DataObject, rate: Rate) -> None:
    usage, now = LimitUsage(rate=rate), NOW
    for wait, count in data.draw(asks(rate)):
        now += wait
        usage = enter(usage, min(count, free_places(usage, now)), now)
        assert believable(usage, now) == usage


def test_a_clock_that_ran_ahead_closes_a_rate_for_no_longer_than_a_pace() -> None:
    usage = enter(LimitUsage(rate=Rate.parse("1/s")), 1, NOW + 10**12)
    assert opens_at(believable(usage, NOW)) == NOW + 1_000_000


LANES = ("a", "b", "c")
usages = st.builds(
    LimitUsage,
    concurrency=st.none() | st.integers(1, 4),
    rate=st.none() | st.sampled_from([Rate.parse("1/s"), Rate.parse("200/s")]),
    held=st.integers(0, 5),
    arrival=st.integers(NOW - 10**6, NOW + 10**6),
    line=st.none() | st.tuples(st.integers(0, 30), st.integers(0, 30)),
)


@st.composite
def crowds(draw: st.DrawFn) -> list[Candidate]:
    made = draw(
        st.lists(
            st.tuples(
                st.lists(st.sampled_from(LANES), unique=True).map(tuple),
                st.dictionaries(st.sampled_from(["gpu", "memory"]), st.integers(1, 3)),
            ),
            max_size=20,
        )
    )
    return [Candidate(n, limits, needs, rank=n) for n, (limits, needs) in enumerate(made)]


choosing = given(
    crowds(),
    st.fixed_dictionaries(dict.fromkeys(LANES, usages)),
    st.dictionaries(st.sampled_from(["gpu", "memory"]), st.integers(0, 4)),
    st.integers(1, 10),
)


def chosen(
    crowd: Sequence[Candidate], limits: dict[str, LimitUsage], free: dict[str, int], limit: int
) -> Admission:
    return choose(crowd, limits, free=free, limit=limit, now=NOW)


@choosing
def test_no_limit_and_no_resource_is_exceeded(
    crowd: list[Candidate], limits: dict[str, LimitUsage], free: dict[str, int], limit: int
) -> None:
    choice = chosen(crowd, limits, free, limit)
    assert len(choice.chosen) <= limit
    entered = Counter(name for one in choice.chosen for name in one.limits)
    for name, count in entered.items():
        assert count <= free_places(limits[name], NOW)
        assert choice.usages[name] == enter(limits[name], count, NOW)
    taken: Counter[str] = Counter()
    for one in choice.chosen:
        taken.update(one.needs)
    assert all(amount <= free.get(name, 0) for name, amount in taken.items())
    assert choice.free == {name: amount - taken[name] for name, amount in free.items()}


@choosing
def test_all_are_taken_for_whom_there_is_room(
    crowd: list[Candidate], limits: dict[str, LimitUsage], free: dict[str, int], limit: int
) -> None:
    choice = chosen(crowd, limits, free, limit)
    if len(choice.chosen) == limit:
        return
    for one in crowd:
        lacks = any(choice.free.get(name, 0) < amount for name, amount in one.needs.items())
        shut = any(free_places(choice.usages[name], NOW) == 0 for name in one.limits)
        late = any(
            (line := limits[name].line) is not None and (one.rank, one.id) > line
            for name in one.limits
        )
        assert one in choice.chosen or lacks or shut or late
        if one.id in choice.full:
            assert one not in choice.chosen
            assert choice.full[one.id] in one.limits


@choosing
def test_those_who_want_the_same_go_in_order(
    crowd: list[Candidate], limits: dict[str, LimitUsage], free: dict[str, int], limit: int
) -> None:
    choice = chosen(crowd, limits, free, limit)
    assert choice.chosen == [one for one in crowd if one in choice.chosen]
    for one in choice.chosen:
        earlier = [other for other in crowd if other.id < one.id]
        same = [
            other for other in earlier if (other.limits, other.needs) == (one.limits, one.needs)
        ]
        assert all(other in choice.chosen for other in same)
        for name in one.limits:
            line = limits[name].line
            assert line is None or (one.rank, one.id) <= line


@choosing
def test_whoever_is_not_chosen_is_said_to_have_left_places_free(
    crowd: list[Candidate], limits: dict[str, LimitUsage], free: dict[str, int], limit: int
) -> None:
    choice = chosen(crowd, limits, free, limit)
    assert {name for one in crowd if one.id in choice.full for name in one.limits} <= choice.passed


def test_who_lacks_a_resource_hides_nobody_and_waits_nowhere() -> None:
    crowd = [Candidate(1, ("a",), {"gpu": 2}), Candidate(2, ("a",))]
    choice = choose(crowd, {"a": LimitUsage(1)}, free={"gpu": 1}, limit=5, now=NOW)
    assert [one.id for one in choice.chosen] == [2]
    assert choice.full == {}


def test_who_finds_one_limit_full_takes_no_place_at_the_other() -> None:
    crowd = [Candidate(1, ("a", "b")), Candidate(2, ("b",))]
    choice = choose(
        crowd, {"a": LimitUsage(1, held=1), "b": LimitUsage(1)}, free={}, limit=5, now=NOW
    )
    assert [one.id for one in choice.chosen] == [2]
    assert choice.full == {1: "a"}


@pytest.mark.parametrize(
    ("usage", "wanted"),
    [
        (LimitUsage(2, held=2), None),
        (LimitUsage(2, held=3, rate=Rate.parse("1/s")), None),
        (LimitUsage(2, held=1), NOW + PATIENCE // MICROSECOND),
        (LimitUsage(rate=Rate.parse("1/h"), arrival=NOW + 700), NOW + 700),
        (LimitUsage(rate=Rate.parse("10/s")), NOW + 100_000),
        (LimitUsage(rate=Rate.parse("1/h")), NOW + PATIENCE // MICROSECOND),
    ],
    ids=["full", "over-full", "room", "shut", "opens soon", "opens late"],
)
def test_somebody_looks_at_a_lane_again_unless_somebody_will_leave_it(
    usage: LimitUsage, wanted: int | None
) -> None:
    assert looks_again(usage, NOW) == wanted


@pytest.mark.parametrize(
    ("usage", "sentence"),
    [
        (LimitUsage(1, held=1), 'limit "crm" is full: 1 of 1 runs'),
        (LimitUsage(1, held=3), 'limit "crm" is full: 3 of 1 run'),
        (
            LimitUsage(rate=Rate.parse("5/s"), arrival=NOW + 10**6),
            'limit "crm" has a rate of 5/s: the next job has to wait',
        ),
        (LimitUsage(2, held=1), 'limit "crm": other jobs come first'),
    ],
)
def test_why_a_job_waits(usage: LimitUsage, sentence: str) -> None:
    assert why_full("crm", usage, NOW) == sentence

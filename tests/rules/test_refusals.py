"""Whatever is asked, the answer is a rule, a moment or a RuleError: never a crash or a wait."""

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest

from duly import RuleError
from duly.rules import (
    at,
    bounded,
    calendar,
    clock_change_notes,
    cron,
    dates,
    delayed,
    every,
    holidays,
    jitter,
    lasting,
    parse,
    rrule,
    spaced,
    spread,
)

START = datetime(2026, 1, 1, tzinfo=UTC)
YEAR = datetime(2027, 1, 1, tzinfo=UTC)
ANY: Any = object()  # of a type that nobody expects
DAILY = "DTSTART:20260105T090000 RRULE:FREQ=DAILY"

WRONG_TYPES: list[Callable[[], object]] = [
    lambda: parse(ANY),
    lambda: parse("daily", zone=ANY),
    lambda: parse("daily UTC", dst=ANY),
    lambda: cron(ANY),
    lambda: calendar(ANY),
    lambda: every(ANY),
    lambda: every("5m", anchor=datetime(9999, 1, 1, tzinfo=UTC)),
    lambda: every(timedelta(days=80_000)),
    lambda: at(ANY),
    lambda: spaced(ANY),
    lambda: spaced("5m").after_end(ANY),
    lambda: rrule(ANY),
    lambda: rrule(DAILY, zone=ANY),
    lambda: dates(ANY),
    dates,
    lambda: holidays(ANY),
    lambda: every("5m").after(ANY),
    lambda: every("5m").between(ANY, ANY),
    lambda: every("5m").after(datetime(2026, 1, 1)),  # noqa: DTZ001 - what is refused
    lambda: jitter(every("5m"), "1m", name=ANY),
    lambda: jitter(every("5m"), "0s", name="a"),
    lambda: bounded(every("5m"), start=START, count=ANY),
    lambda: bounded(ANY, start=START),
    lambda: delayed(ANY, "5m"),
    lambda: lasting(spaced("5m"), "5m"),  # type: ignore[arg-type]
    lambda: spaced("5m").bounded(start=YEAR, end=START),
]


@pytest.mark.parametrize("ask", WRONG_TYPES, ids=range(len(WRONG_TYPES)))
def test_what_is_of_the_wrong_kind_is_refused(ask: Callable[[], object]) -> None:
    with pytest.raises(RuleError):
        ask()


HOSTILE = [
    "every 999999999999999s",
    "spaced 999999999999w",
    "Mon UTC" + " - Tue UTC" * 400,
    " | ".join(f"{minute} * * * *" for minute in range(9)),
    "0 * * * * UTC - ((0 8 * * * UTC) lasting=8h - (0 10 * * * UTC) lasting=2h)",
    "2026-12-24T18:00Z dst=never",
    "2026-12-24T18:00Z Europe/Berlin",
    "every 5m seed=a",
    "every 5m - dates(2026-12-24)",
    "*:*:" + ",".join(f"{second}/0.000001" for second in range(9)),
    "02:30:0/0.000001 Europe/Berlin dst=shift/first",
]


@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: text[:40])
def test_hostile_text_is_refused_when_it_is_read(text: str) -> None:
    with pytest.raises(RuleError):
        parse(text)


def test_hostile_questions_are_answered_or_refused() -> None:
    """Each of these once took seconds, or for ever; the test's time-out is the judge."""
    huge = parse("(* * * * * - 0 * * * * - 30 * * * *) start=1970-01-01T00:00Z count=99999999")
    assert huge.after(START) == START + timedelta(minutes=1)
    fine = parse("*:*:0/0.000001 - *:*:0/0.000003")
    assert fine.count(START, YEAR) == 365 * 86_400 * 2_000_000 // 3
    for endless in ("(* * * * *) lasting=1m", "(0 0 * * * UTC) lasting=24h"):
        delay = parse(f"spaced 5m - {endless}")
        with pytest.raises(RuleError, match="leaves nothing"):
            delay.after_end(START)  # type: ignore[union-attr]


def test_the_end_of_time_is_not_an_error() -> None:
    last = datetime.max.replace(tzinfo=UTC)
    rule = calendar("daily", zone="UTC")
    assert rule.after(last) is None
    assert rule.at_or_before(last) == datetime(2199, 12, 31, tzinfo=UTC)
    assert rule.at_or_before(datetime.min.replace(tzinfo=UTC)) is None
    assert clock_change_notes(rule, last) == []
    assert spaced("5m").after_end(last) is None


def test_what_is_longer_than_a_rule_may_be_still_reads_back() -> None:
    days = dates(*(date(2026, 1, 1) + timedelta(days=3 * n) for n in range(100)), zone="UTC")
    assert parse(str(days)) == days
    moments = at(",".join(f"2026-12-{day:02d}T18:00Z" for day in range(1, 30)))
    assert parse(str(moments)) == moments
    none = spread(every("5m"), "500ms", name="x")
    assert parse(str(none)) == none == every("5m")
    with pytest.raises(RuleError, match="at most 256 characters"):
        cron("0 " + "0," * 110 + "0 * * *", zone="America/Argentina/ComodRivadavia")


def test_a_half_that_is_any_day_makes_it_any_day() -> None:
    assert parse("0 0 1-31 * 1 UTC") == parse("0 0 1 * 0-6 UTC") == parse("0 0 * * * UTC")


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("30 2 * * * Europe/Berlin", 2),
        ("30 2 * * * Europe/Berlin end=2027-05-01T00:00Z", 1),
        ("30 2 * * * Europe/Berlin - dates(2027-03-28)", 1),
        ("30 2 * * * Europe/Berlin delay=2h", 0),
        ("DTSTART;TZID=Europe/Berlin:20260105T023000 RRULE:FREQ=DAILY;UNTIL=20270501", 1),
    ],
)
def test_notes_are_about_moments_that_will_be(text: str, count: int) -> None:
    assert len(clock_change_notes(parse(text), datetime(2026, 11, 15, tzinfo=UTC))) == count

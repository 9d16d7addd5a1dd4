"""One question costs a bounded amount of work, however many levels a rule has.

Each of these took minutes, or years. The test's time-out is the judge.
"""

from datetime import UTC, datetime, timedelta

import pytest

from duly.errors import RuleError
from duly.rules import Budget, parse
from duly.rules.budget import MOST_STEPS

START = datetime(2026, 3, 2, 12, tzinfo=UTC)
BLOCKED = "(every 1s start=2026-03-02T12:00Z count=9000) lasting=1s"
INNER = f"(every 1s - {BLOCKED}) start=2026-03-02T12:00Z end=2026-03-02T14:30Z lasting=1s"
EXCLUDING = f"every 1s - ({BLOCKED} | {INNER})"  # 9,000 stretches, and 9,000 more for each


def jittered(levels: int) -> str:
    text = "every 1h"
    for level in range(levels):
        text = f"({text}) jitter=10m seed={level:x}"
    return text


def unions() -> str:
    zones = ("Europe/Berlin", "America/New_York", "Asia/Kolkata", "Australia/Sydney")
    parts = [
        f"({n} {n} * * * {zone} - 1 {n} * * * Asia/Tokyo)" for n, zone in enumerate(zones * 2, 1)
    ]
    return f"(({' | '.join(parts)}) - * * * * * Pacific/Auckland) start=1980-01-01T00:00Z"


costly = pytest.mark.thorough("takes seconds to be refused, as the others do")


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(EXCLUDING, id="excluding", marks=costly),
        pytest.param(jittered(15), id="jittered"),
    ],
)
def test_levels_that_multiply_are_refused_with_the_reason(text: str) -> None:
    rule = parse(text)
    inside = START + timedelta(hours=1)
    with pytest.raises(RuleError, match="takes too long to evaluate: more than 500,000 steps"):
        rule.after(inside)
    with pytest.raises(RuleError, match="takes too long to evaluate"):
        rule.at_or_before(inside)
    with pytest.raises(RuleError, match="takes too long to evaluate"):
        list(rule.between(inside, inside + timedelta(days=1)))
    with pytest.raises(RuleError, match=r"too dense|too long"):
        rule.count(START - timedelta(days=400), inside)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(f"({EXCLUDING}) start=2026-03-02T12:00Z", id="excluding", marks=costly),
        pytest.param(
            f"({jittered(14)}) start=2026-01-01T00:00Z count=9", id="jittered", marks=costly
        ),
        pytest.param(f"{unions()} count=100000", id="unions"),
    ],
)
def test_what_is_evaluated_while_a_rule_is_read_is_refused_too(text: str) -> None:
    with pytest.raises(RuleError, match="takes too long to evaluate"):
        parse(text)


def test_a_delay_between_costly_exclusions_is_refused() -> None:
    delay = parse(f"spaced 1s - ({BLOCKED} | {INNER})")
    with pytest.raises(RuleError, match="takes too long to evaluate"):
        delay.after_end(START + timedelta(hours=1))  # type: ignore[union-attr]


def test_several_questions_share_the_budget_that_is_open_around_them() -> None:
    rule = parse(f"every 1s - {BLOCKED}")
    with Budget() as alone:
        rule.after(START)
    assert 0 < alone.spent < MOST_STEPS
    with Budget():
        for _ in range(MOST_STEPS // alone.spent):
            rule.after(START)
        with pytest.raises(RuleError, match="takes too long to evaluate"):
            rule.after(START)
    assert rule.after(START) == START + timedelta(seconds=9_000)


def test_whoever_reads_moments_one_by_one_leaves_no_budget_open() -> None:
    moments = parse(f"every 1s - {BLOCKED}").between(START, START + timedelta(days=1))
    assert next(moments) == START + timedelta(seconds=9_000)
    with Budget() as own:
        parse("every 1m | every 7m").after(START)
    assert own.spent == 2

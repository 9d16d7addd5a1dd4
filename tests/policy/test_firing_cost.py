"""A year of downtime costs as much as a minute: questions to the rule are counted, not seconds."""

from collections import Counter
from dataclasses import dataclass
from datetime import timedelta
from typing import get_args

import pytest

from duly.model.policies import Missed, Overlap, Policies
from duly.model.schedule import Plan, StoredSchedule
from duly.policy.decision import Facts, LedgerEntry
from duly.policy.firing import decide
from duly.rules import Rule, Spaced
from tests.policy.deciding import DAY, MINUTE, at

BERLIN = "Europe/Berlin"
START = at("2026-06-03 08:00")


@dataclass(frozen=True, repr=False)
class Counted(Rule):
    """A rule that counts how often it is asked."""

    rule: Rule
    asked: Counter[str]

    @property
    def zone(self) -> str | None:  # type: ignore[override]
        return self.rule.zone

    def after_us(self, instant: int) -> int | None:
        self.asked["questions"] += 1
        return self.rule.after_us(instant)

    def at_or_before_us(self, instant: int) -> int | None:
        self.asked["questions"] += 1
        return self.rule.at_or_before_us(instant)

    def count_us(self, after: int, until: int) -> int:
        self.asked["questions"] += 1
        return self.rule.count_us(after, until)

    def explain(self) -> str:
        return self.rule.explain()

    def __str__(self) -> str:
        return str(self.rule)


def questions(outage: timedelta, chosen: Policies, rule: str = "every 1s") -> tuple[int, int]:
    """How many questions the rule is asked about an outage, and how many rows there are then."""
    plan = Plan(name="n", task="t", rule=rule, zone=BERLIN, policies=chosen)
    asked: Counter[str] = Counter()
    timing, kept = plan.timing, plan.kept
    assert not isinstance(timing, Spaced)
    assert not isinstance(kept, Spaced)
    counted = Counted(kept, asked)
    vars(plan).update(timing=counted if timing is kept else Counted(timing, asked), kept=counted)
    start = START
    found = StoredSchedule(id=1, plan=plan, created_at=start, cursor=start, next_at=start)
    entries: list[LedgerEntry] = decide(Facts(schedule=found), start + outage).entries
    return asked["questions"], len(entries)


@pytest.mark.parametrize("policy", ["latest", "skip"])
def test_a_year_of_seconds_asks_as_much_as_ten_minutes(policy: str) -> None:
    chosen = Policies(missed=Missed(policy))  # type: ignore[arg-type]
    assert questions(365 * DAY, chosen) == questions(10 * MINUTE, chosen)
    asked, rows = questions(365 * DAY, chosen)
    assert asked < 10
    assert rows == 2


@pytest.mark.parametrize("overlap", get_args(Overlap))
def test_a_year_of_seconds_makes_no_more_rows_than_are_made_up_for(overlap: Overlap) -> None:
    chosen = Policies(missed=Missed("all", at_most=50), overlap=overlap)
    asked, rows = questions(365 * DAY, chosen)
    assert rows == 51
    assert asked < 2 * 50 + 10
    assert asked == questions(10 * MINUTE, chosen)[0]


@pytest.mark.parametrize("exclude", ["Sat,Sun lasting=1d", "0 2 * * * lasting=90m"])
def test_a_year_with_an_exclusion_is_searched_by_halving(exclude: str) -> None:
    asked, rows = questions(365 * DAY, Policies(exclude=exclude))
    assert rows == 3
    assert asked < 3 * 2 * 45 + 10  # a year is 2**45 microseconds

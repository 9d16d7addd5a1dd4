"""What is told of problems, and when: facts in, a decision out."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from duly.model.alert import OpenAlert, Problem
from duly.policy.alerting import WINDOW, AlertDecision, AlertPace, Examined, decide_alerts

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)
SECOND, MINUTE, HOUR = timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1)
PACE = AlertPace(group=30 * SECOND, every=5 * MINUTE, repeat=4 * HOUR)


def problem(subject: str = "task:mail", kind: str = "failed", last: datetime = NOON) -> Problem:
    return Problem(
        kind=kind, subject=subject, name=subject, sentence="it failed", since=NOON, last=last
    )


class Told:
    """The alerts as they are stored, and what was told."""

    def __init__(self) -> None:
        self.known: dict[tuple[str, str], OpenAlert] = {}
        self.told_at: datetime | None = None

    def at(self, after: timedelta, *found: Problem, **words: set[object]) -> AlertDecision:
        now = NOON + after
        examined = Examined(problems={one.key: one for one in found}, **words)  # type: ignore[arg-type]
        decided = decide_alerts(
            list(self.known.values()), examined, now=now, told_at=self.told_at, pace=PACE
        )
        for alert in decided.changed:
            self.known[alert.problem.key] = alert
        for alert in decided.closed:
            del self.known[alert.problem.key]
        if decided.firing or decided.resolved:
            self.told_at = now
        return decided


def names(alerts: list[OpenAlert]) -> list[str]:
    return sorted(alert.problem.subject for alert in alerts)


def test_problems_of_half_a_minute_are_told_together() -> None:
    told = Told()
    flood = [problem(f"task:{number}") for number in range(500)]
    assert not told.at(0 * SECOND, flood[0]).firing
    assert not told.at(29 * SECOND, *flood).firing
    assert len(told.at(30 * SECOND, *flood).firing) == 500
    assert not told.at(31 * SECOND, *flood).firing


def test_between_two_messages_are_five_minutes() -> None:
    told = Told()
    first, second = problem("a"), problem("b")
    told.at(0 * SECOND, first)
    assert names(told.at(30 * SECOND, first).firing) == ["a"]
    assert not told.at(2 * MINUTE, first, second).firing
    assert not told.at(5 * MINUTE, first, second).firing
    assert names(told.at(6 * MINUTE, first, second).firing) == ["b"]


def test_a_problem_that_is_over_before_it_was_told_is_not_told() -> None:
    told = Told()
    told.at(0 * SECOND, problem())
    over = told.at(20 * SECOND)
    assert (over.firing, over.resolved, told.known) == ([], [], {})


def test_a_told_problem_that_is_over_is_resolved_once() -> None:
    told = Told()
    told.at(0 * SECOND, problem())
    told.at(30 * SECOND, problem())
    assert not told.at(MINUTE).resolved, "five minutes are between two messages"
    assert names(told.at(6 * MINUTE).resolved) == ["task:mail"]
    assert told.known == {}
    assert not told.at(12 * MINUTE).resolved


def test_a_problem_that_comes_back_before_it_was_called_resolved_goes_on() -> None:
    told = Told()
    told.at(0 * SECOND, problem())
    told.at(30 * SECOND, problem())
    told.at(MINUTE)
    told.at(2 * MINUTE, problem())
    later = told.at(10 * MINUTE, problem())
    assert (later.firing, later.resolved) == ([], [])


def test_a_condition_that_lasts_is_told_again_after_four_hours() -> None:
    told = Told()
    lasting = problem("queue:mail", "queue")
    told.at(0 * SECOND, lasting)
    told.at(30 * SECOND, lasting)
    assert not told.at(3 * HOUR, lasting).firing
    assert names(told.at(4 * HOUR + MINUTE, lasting).firing) == ["queue:mail"]


def test_a_failure_is_told_again_only_if_it_failed_again() -> None:
    told = Told()
    told.at(0 * SECOND, problem())
    told.at(30 * SECOND, problem())
    assert not told.at(5 * HOUR, problem()).firing
    again = replace(problem(), last=NOON + 5 * HOUR, count=2)
    [alert] = told.at(5 * HOUR + SECOND, again).firing
    assert alert.problem.count == 2


def test_a_failure_that_is_a_day_old_is_forgotten_and_not_called_resolved() -> None:
    told = Told()
    told.at(0 * SECOND, problem())
    told.at(30 * SECOND, problem())
    gone = told.at(WINDOW)
    assert (gone.resolved, told.known) == ([], {})


def test_a_kind_that_was_not_examined_to_the_end_is_not_resolved() -> None:
    told = Told()
    told.at(0 * SECOND, problem())
    told.at(30 * SECOND, problem())
    assert not told.at(6 * MINUTE, unsure={"failed"}).resolved
    key: set[object] = {("failed", "task:mail")}
    told.at(7 * MINUTE, unsure={"failed"}, over=key)
    assert names(told.at(8 * MINUTE, unsure={"failed"}, over=key).resolved) == ["task:mail"]


def test_a_problem_found_before_the_clock_was_distrusted_is_told_meanwhile() -> None:
    told = Told()
    told.at(0 * SECOND, problem())
    assert names(told.at(30 * SECOND, unsure={"failed"}).firing) == ["task:mail"]

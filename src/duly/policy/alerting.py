"""Decide which alerts about problems are sent, and when.

A problem is told once it has lasted for ``group``, in one message with all others that were found
meanwhile: a flood of failures is one message, and a problem that is over at once is none. Between
two messages is at least ``every``. A problem that goes on is told again after ``repeat``; one that
is an event (a failed run) only if it happened again. When a told problem is over, that is told too.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final

from duly.model.alert import EVENTS, PING, OpenAlert, Problem

WINDOW: Final = timedelta(hours=24)  # an event that is older is forgotten, and is not resolved


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertPace:
    """The intervals between alerts about problems; see the settings of the same names."""

    group: timedelta
    every: timedelta
    repeat: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class Examined:
    """The problems that were found, and the kinds that were not examined to the end."""

    problems: Mapping[tuple[str, str], Problem]
    # Kinds that were not examined, or not to the end: an absent problem may still be there.
    unsure: Collection[str] = ()
    # Problems that are known to be over although their kind is unsure.
    over: Collection[tuple[str, str]] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertDecision:
    changed: list[OpenAlert] = field(default_factory=list)
    closed: list[OpenAlert] = field(default_factory=list)
    firing: list[OpenAlert] = field(default_factory=list)  # to be told now, newest first
    resolved: list[OpenAlert] = field(default_factory=list)


def decide_alerts(
    known: Sequence[OpenAlert],
    found: Examined,
    *,
    now: datetime,
    told_at: datetime | None,
    pace: AlertPace,
) -> AlertDecision:
    """Compare the known alerts with the problems that are there; decide what is told now."""
    decision = AlertDecision()
    before = {alert.problem.key: alert for alert in known if alert.problem.kind != PING}
    current: list[OpenAlert] = []
    for key, problem in found.problems.items():
        alert = before.get(key)
        if alert is None:
            current.append(OpenAlert(problem=problem, found_at=now))
        elif alert.resolved_at is not None:  # it is back before anybody was told that it was over
            current.append(replace(alert, resolved_at=None))
        else:
            current.append(alert)
    for key, alert in before.items():
        if key not in found.problems:
            current += _absent(alert, found, now, decision)
    if _is_time(current, found, now=now, told_at=told_at, pace=pace):
        again = {one.problem.key for one in current if _is_due_again(one, found, now, pace)}
        current = _tell(current, found, now, again=again, decision=decision)
    decision.changed.extend(one for one in current if one != before.get(one.problem.key))
    return decision


def _absent(
    alert: OpenAlert, found: Examined, now: datetime, decision: AlertDecision
) -> list[OpenAlert]:
    """Return the alert of a problem that was not found, as it is now; none if it is forgotten."""
    problem = alert.problem
    is_over = problem.kind not in found.unsure or problem.key in found.over
    is_old = problem.kind in EVENTS and problem.last <= now - WINDOW
    if is_old or (is_over and alert.told_at is None):
        decision.closed.append(alert)
        return []
    if is_over and alert.resolved_at is None:
        return [replace(alert, resolved_at=now)]
    return [alert]


def _is_time(
    current: Sequence[OpenAlert],
    found: Examined,
    *,
    now: datetime,
    told_at: datetime | None,
    pace: AlertPace,
) -> bool:
    if told_at is not None and timedelta() <= now - told_at < pace.every:
        return False
    waits = [
        alert.found_at if alert.told_at is None else alert.resolved_at or now - pace.group
        for alert in current
        if alert.told_at is None
        or alert.resolved_at is not None
        or _is_due_again(alert, found, now, pace)
    ]
    return bool(waits) and now - min(waits) >= pace.group


def _is_due_again(alert: OpenAlert, found: Examined, now: datetime, pace: AlertPace) -> bool:
    problem = found.problems.get(alert.problem.key)
    if problem is None or alert.told_at is None or now - alert.told_at < pace.repeat:
        return False
    return problem.kind not in EVENTS or problem.last > alert.problem.last


def _tell(
    current: Sequence[OpenAlert],
    found: Examined,
    now: datetime,
    *,
    again: Collection[tuple[str, str]],
    decision: AlertDecision,
) -> list[OpenAlert]:
    """Put everything that is to be told into the decision; return the alerts that stay open."""
    stay = []
    for alert in current:
        if alert.resolved_at is not None:
            decision.resolved.append(alert)
            decision.closed.append(alert)
        elif alert.told_at is None or alert.problem.key in again:
            problem = found.problems.get(alert.problem.key, alert.problem)
            told = replace(alert, problem=problem, told_at=now)
            decision.firing.append(told)
            stay.append(told)
        else:
            stay.append(alert)
    decision.firing.sort(key=lambda one: one.found_at, reverse=True)
    return stay

"""Operations on alerts: the turn of a node, the problems that were told, and the outbox.

One node examines and delivers at a time: it holds the turn, a lease. Whatever an examination
changes is written in one transaction that locks the turn, so a node that has lost it writes
nothing. A message is marked after it was sent. A node that dies in between has sent it once, and
the next one sends it again with the same key.
"""

import json
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

import msgspec

from duly.instants import from_us, to_us
from duly.model.alert import (
    AlertChanges,
    AlertContent,
    AlertMessage,
    AlertTurn,
    GoneWorker,
    LastRun,
    NotStarted,
    OpenAlert,
    Problem,
)
from duly.store import rows
from duly.store.database import Ask, Operation, Row, Value

MOST_WAITING = 10_000  # late runs that are counted
_problem = msgspec.json.Decoder(Problem)
_content = msgspec.json.Decoder(AlertContent)
_encode: Callable[[object], bytes] = msgspec.json.Encoder().encode


class TurnState(NamedTuple):
    """The turn as one node sees it."""

    mine: AlertTurn | None  # the node holds it, and need not renew it yet
    is_free: bool  # no other node holds it


def turn_state(holder: str, length: timedelta) -> Operation[TurnState]:
    seen = yield Ask("alert_turn")
    if not seen:
        return TurnState(None, is_free=True)
    [(found, until, told, now)] = seen
    lasts = now < until <= now + rows_of(length)
    is_fresh = lasts and until > now + rows_of(length) * 2 // 3
    mine = _turn(until, told, now) if found == holder and is_fresh else None
    return TurnState(mine, is_free=found == holder or not lasts)


def take_turn(holder: str, length: timedelta) -> Operation[AlertTurn | None]:
    """Take or renew the turn; return None if another node holds it."""
    taken = yield Ask("take_alert_turn", {"holder": holder, "length": rows_of(length)})
    return _turn(*taken[0][1:]) if taken else None


def _turn(until: int, told: int | None, now: int) -> AlertTurn:
    return AlertTurn(now=from_us(now), until=from_us(until), told_at=rows.moment(told))


def rows_of(length: timedelta) -> int:
    return rows.microseconds(length) or 0


def listed() -> Operation[list[OpenAlert]]:
    return [
        OpenAlert(
            problem=_problem.decode(problem),
            found_at=from_us(found),
            told_at=rows.moment(told),
            resolved_at=rows.moment(resolved),
        )
        for problem, found, told, resolved in (yield Ask("list_alerts"))
    ]


def change(holder: str, changes: AlertChanges, numbers: Sequence[int]) -> Operation[bool]:
    """Write what an examination changes; return False if the turn is not the holder's any more."""
    if not (yield Ask("hold_alert_turn", {"holder": holder, "tells": int(changes.tells)})):
        return False
    if changes.alerts:
        yield Ask("set_alerts", {"rows": rows.packed(map(_values, changes.alerts))})
    if changes.closed:
        keys = [{"kind": kind, "subject": subject} for kind, subject in map(_key, changes.closed)]
        yield Ask("close_alerts", {"rows": rows.packed(keys)})
    if changes.messages:
        made = [
            {"id": number, "destination": destination, "content": _encode(content).decode()}
            for number, (destination, content) in zip(numbers, changes.messages, strict=True)
        ]
        yield Ask("add_alert_messages", {"rows": rows.packed(made)})
    return True


def _key(alert: OpenAlert) -> tuple[str, str]:
    return alert.problem.key


def _values(alert: OpenAlert) -> dict[str, object]:
    return {
        "kind": alert.problem.kind,
        "subject": alert.problem.subject,
        "problem": _encode(alert.problem).decode(),
        "found_at": to_us(alert.found_at),
        "told_at": rows.instant(alert.told_at),
        "resolved_at": rows.instant(alert.resolved_at),
    }


def due(destinations: Sequence[str], longest: timedelta) -> Operation[list[AlertMessage]]:
    values: dict[str, Value] = {"destinations": list(destinations), "longest": rows_of(longest)}
    return [_message(row) for row in (yield Ask("due_alert_messages", values))]


def sent(number: int) -> Operation[None]:
    yield Ask("alert_message_sent", {"id": number})


def failed(number: int, error: str, pause: timedelta | None) -> Operation[None]:
    values: dict[str, Value] = {
        "id": number,
        "error": error,
        "pause": rows.microseconds(pause),
    }
    yield Ask("alert_message_failed", values)


def messages(limit: int, *, pending: bool) -> Operation[list[AlertMessage]]:
    found = yield Ask("list_alert_messages", {"limit": limit, "pending": int(pending)})
    return [_message(row) for row in found]


def _message(row: Row) -> AlertMessage:
    number, destination, made, content, attempts, next_at, sent_at, error = row
    return AlertMessage(
        id=number,
        destination=destination,
        made_at=from_us(made),
        content=_content.decode(content),
        attempts=attempts,
        next_at=rows.moment(next_at),
        sent_at=rows.moment(sent_at),
        error=error,
    )


def last_runs(names: Sequence[str], since: datetime) -> Operation[list[LastRun]]:
    """Return the last run of each schedule that has ended since then."""
    asked: dict[str, Value] = {"names": list(names), "since": to_us(since)}
    found = (yield Ask("last_runs", asked)) if names else []
    numbers = [number for _, *both in found for number in both if number is not None]
    times = rows.run_times((yield Ask("runs_of", {"ids": numbers}))) if numbers else {}
    runs = []
    for name, *both in found:
        ended = [
            LastRun(schedule=name, job_id=number, state=str(run.state), ended_at=run.ended_at)
            for number in both
            if (run := times.get(number)) is not None and run.ended_at is not None
        ]
        runs += [max(ended, key=lambda run: (run.ended_at, run.job_id))] if ended else []
    return runs


def not_started(late: timedelta) -> Operation[list[NotStarted]]:
    """Return the schedules whose runs are due for longer and have not started, oldest first."""
    values = {"late": rows_of(late), "most": MOST_WAITING}
    return [
        NotStarted(schedule=name, runs=int(runs), due_at=from_us(due_at), job_id=number)
        for name, runs, due_at, number in (yield Ask("not_started", values))
    ]


def gone_workers(since: datetime) -> Operation[list[GoneWorker]]:
    """Return the workers that died since then, and are not forgotten yet."""
    found = yield Ask("gone_workers", {"since": to_us(since)})
    return [
        GoneWorker(id=number, name=name, pid=json.loads(host).get("pid", 0), beat_at=from_us(beat))
        for number, name, host, beat in found
    ]

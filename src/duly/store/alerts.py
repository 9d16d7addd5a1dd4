"""Alerts: the turn of a node, the problems that were told, and the outbox.

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
    AlertMessage,
    AlertTurn,
    GoneWorker,
    LastRun,
    NotStarted,
    OpenAlert,
)
from duly.model.columns import read_rows
from duly.store import rows
from duly.store.database import Ask, Operation, Value, alone
from duly.store.verbs import Noun, reads, verb

MOST_WAITING = 10_000  # late runs that are counted
_encode: Callable[[object], bytes] = msgspec.json.Encoder().encode


class AlertStore(Noun):
    @verb(None)
    async def turn(self, holder: str, length: timedelta) -> AlertTurn | None:
        """Take, keep or renew the turn; return None while another node holds it.

        It is written only when a third of it is over, so that asking often costs a read.
        """
        state = await self._db.read(lambda: _turn_state(holder, length))
        if state.mine is not None or not state.is_free:
            return state.mine
        return await self._db.write(lambda: _take_turn(holder, length))

    @reads("viewer")
    def open(self) -> Operation[list[OpenAlert]]:
        """Return the problems that were told, or are about to be."""
        return read_rows(OpenAlert, (yield Ask("list_alerts")))

    @verb(None)
    async def change(self, holder: str, changes: AlertChanges) -> bool:
        """Write the changes of an examination; return False if the turn is another node's."""
        count = len(changes.messages)
        if not count:
            return await self._db.insist(lambda: _change(holder, changes, ()))
        return await self._db.insist(
            self._db.numbered(count, lambda numbers: _change(holder, changes, numbers))
        )

    @reads(None)
    def due(
        self, destinations: Sequence[str], *, longest: timedelta
    ) -> Operation[list[AlertMessage]]:
        """Return the oldest unsent message of each destination, if its time has come."""
        values: dict[str, Value] = {
            "destinations": list(destinations),
            "longest": rows.microseconds(longest),
        }
        return read_rows(AlertMessage, (yield Ask("due_alert_messages", values)))

    @verb(None)
    async def sent(self, message: int) -> None:
        """Mark a message as sent."""
        await self._db.write(lambda: alone(Ask("alert_message_sent", {"id": message})))

    @verb(None)
    async def failed(self, message: int, error: str, *, pause: timedelta | None) -> None:
        """Note a failed attempt; the next one is after a pause, or never."""
        values: dict[str, Value] = {
            "id": message,
            "error": error,
            "pause": rows.microseconds(pause),
        }
        await self._db.write(lambda: alone(Ask("alert_message_failed", values)))

    @reads("viewer")
    def messages(self, *, pending: bool = False, limit: int = 100) -> Operation[list[AlertMessage]]:
        """Return the messages, newest first; with ``pending``, only those not sent yet."""
        values = {"limit": limit, "pending": int(pending)}
        return read_rows(AlertMessage, (yield Ask("list_alert_messages", values)))

    @reads("viewer")
    def last_runs(self, schedules: Sequence[str], *, since: datetime) -> Operation[list[LastRun]]:
        """Return the run of each schedule that ended last, if it ended since then."""
        asked: dict[str, Value] = {"names": list(schedules), "since": to_us(since)}
        found = (yield Ask("last_runs", asked)) if schedules else []
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

    @reads("viewer")
    def not_started(self, *, late: timedelta) -> Operation[list[NotStarted]]:
        """Return the schedules with runs that are due for longer and have not started."""
        values = {"late": rows.microseconds(late), "most": MOST_WAITING}
        return read_rows(NotStarted, (yield Ask("not_started", values)))

    @reads("viewer")
    def gone_workers(self, *, since: datetime) -> Operation[list[GoneWorker]]:
        """Return the workers that died since then without ending their lease."""
        found = yield Ask("gone_workers", {"since": to_us(since)})
        return [
            GoneWorker(
                id=number, name=name, pid=json.loads(host).get("pid", 0), beat_at=from_us(beat)
            )
            for number, name, host, beat in found
        ]


class TurnState(NamedTuple):
    """The turn as one node sees it."""

    mine: AlertTurn | None  # the node holds it, and need not renew it yet
    is_free: bool  # no other node holds it


def _turn_state(holder: str, length: timedelta) -> Operation[TurnState]:
    seen = yield Ask("alert_turn")
    if not seen:
        return TurnState(None, is_free=True)
    [(found, until, told, now)] = seen
    lasts = now < until <= now + _us(length)
    is_fresh = lasts and until > now + _us(length) * 2 // 3
    mine = _turn(until, told, now) if found == holder and is_fresh else None
    return TurnState(mine, is_free=found == holder or not lasts)


def _take_turn(holder: str, length: timedelta) -> Operation[AlertTurn | None]:
    """Take or renew the turn; return None if another node holds it."""
    taken = yield Ask("take_alert_turn", {"holder": holder, "length": _us(length)})
    return _turn(*taken[0][1:]) if taken else None


def _turn(until: int, told: int | None, now: int) -> AlertTurn:
    return AlertTurn(now=from_us(now), until=from_us(until), told_at=rows.moment(told))


def _us(length: timedelta) -> int:
    return rows.microseconds(length) or 0


def _change(holder: str, changes: AlertChanges, numbers: Sequence[int]) -> Operation[bool]:
    """Write the changes of an examination; return False if the holder has lost the turn."""
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

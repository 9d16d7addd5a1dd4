"""Alerts: the turn of a node, the problems that were told, and the outbox."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from duly.model.alert import (
    AlertChanges,
    AlertMessage,
    AlertTurn,
    GoneWorker,
    LastRun,
    NotStarted,
    OpenAlert,
)
from duly.store import alerts
from duly.store.database import Operation
from duly.store.verbs import Noun, reads, verb


class AlertStore(Noun):
    @verb(None)
    async def turn(self, holder: str, length: timedelta) -> AlertTurn | None:
        """Take, keep or renew the turn; return None while another node holds it.

        It is written only when a third of it is over, so that asking often costs a read.
        """
        state = await self._db.read(lambda: alerts.turn_state(holder, length))
        if state.mine is not None or not state.is_free:
            return state.mine
        return await self._db.write(lambda: alerts.take_turn(holder, length))

    @reads("viewer")
    def open(self) -> Operation[list[OpenAlert]]:
        """Return the problems that were told, or are about to be."""
        return alerts.listed()

    @verb(None)
    async def change(self, holder: str, changes: AlertChanges) -> bool:
        """Write what an examination changes; return False if the turn is another node's."""
        count = len(changes.messages)
        if not count:
            return await self._db.insist(lambda: alerts.change(holder, changes, ()))
        return await self._db.insist(
            self._db.numbered(count, lambda numbers: alerts.change(holder, changes, numbers))
        )

    @reads(None)
    def due(
        self, destinations: Sequence[str], *, longest: timedelta
    ) -> Operation[list[AlertMessage]]:
        """Return the oldest unsent message of each destination, if its time has come."""
        return alerts.due(destinations, longest)

    @verb(None)
    async def sent(self, message: int) -> None:
        """Mark a message as sent."""
        await self._db.write(lambda: alerts.sent(message))

    @verb(None)
    async def failed(self, message: int, error: str, *, pause: timedelta | None) -> None:
        """Note a failed attempt; the next one is after a pause, or never."""
        await self._db.write(lambda: alerts.failed(message, error, pause))

    @reads("viewer")
    def messages(self, *, pending: bool = False, limit: int = 100) -> Operation[list[AlertMessage]]:
        """Return the messages, newest first; with ``pending``, only those not sent yet."""
        return alerts.messages(limit, pending=pending)

    @reads("viewer")
    def last_runs(self, schedules: Sequence[str], *, since: datetime) -> Operation[list[LastRun]]:
        """Return the run of each schedule that ended last, if it ended since then."""
        return alerts.last_runs(schedules, since)

    @reads("viewer")
    def not_started(self, *, late: timedelta) -> Operation[list[NotStarted]]:
        """Return the schedules with runs that are due for longer and have not started."""
        return alerts.not_started(late)

    @reads("viewer")
    def gone_workers(self, *, since: datetime) -> Operation[list[GoneWorker]]:
        """Return the workers that died since then without ending their lease."""
        return alerts.gone_workers(since)

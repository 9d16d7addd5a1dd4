"""Schedules, and the ledger of what became of their moments."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import TypeVar

from duly.instants import EPOCH
from duly.model.access import Deed
from duly.model.fire import Backfill, StoredFire
from duly.model.schedule import Pause, Plan, StoredSchedule
from duly.policy.firing import Firing, decide
from duly.rules import zone_data_version
from duly.store import (
    applying,
    backfilling,
    declaring,
    fires,
    ledger,
    schedule_change,
    schedules,
    work,
)
from duly.store.database import Start
from duly.store.nouns import deeds
from duly.store.protocol import (
    JOBS,
    QUEUES,
    READY,
    SCHEDULES,
    Decide,
    Declared,
    FiringResult,
    Step,
    StoredDefinitions,
    Trust,
    WantedSchedule,
)
from duly.store.transactions import Transactions

T = TypeVar("T")


class SqlSchedules:
    def __init__(self, room: Transactions) -> None:
        self._room = room

    async def add(self, plans: Sequence[Plan]) -> list[StoredSchedule]:
        start = self._room.numbered(len(plans), lambda numbers: schedules.add(plans, numbers))
        added = await self._room.insist(self._room.audited(start, lambda _: deeds.added(plans)))
        self._room.nudge(SCHEDULES)
        return added

    async def get(self, name: str) -> StoredSchedule:
        return await self._room.read(lambda: schedule_change.get(name))

    async def page(self, *, after: str = "", limit: int = 100) -> list[StoredSchedule]:
        return await self._room.read(lambda: schedules.listed(after, limit))

    async def edit(self, name: str, change: Callable[[Plan], Plan]) -> StoredSchedule:
        seen: list[tuple[Plan, Plan]] = []

        def noted(old: Plan) -> Plan:
            seen[:] = [(old, change(old))]
            return seen[0][1]

        return await self._changed(
            lambda: schedules.edit(name, noted, self._room.editor()),
            lambda _: deeds.edited(name, *seen[0]),
        )

    async def pause(
        self,
        name: str,
        *,
        until: datetime | None = None,
        note: str = "",
        catch_up: bool = False,
    ) -> StoredSchedule:
        wanted = Pause(since=EPOCH, until=until, by=self._room.who, note=note, catch_up=catch_up)
        return await self._changed(
            lambda: schedules.pause(name, wanted, self._room.editor()),
            deeds.constant(
                "schedules.pause",
                deeds.schedule(name),
                until=until,
                note=note,
                catch_up=catch_up or None,
            ),
        )

    async def resume(self, name: str) -> StoredSchedule:
        return await self._changed(
            lambda: schedules.resume(name, self._room.editor()),
            deeds.constant("schedules.resume", deeds.schedule(name)),
        )

    async def skip_next(self, name: str, *, count: int = 1) -> list[datetime]:
        schedules.check_skipped(count)
        start = self._room.audited(
            self._room.numbered(
                count,
                lambda numbers: schedules.skip_next(name, numbers, self._room.editor()),
            ),
            lambda moments: deeds.deed(
                "schedules.skip_next", deeds.schedule(name), moments=moments
            ),
        )
        moments = await self._room.insist(start)
        self._room.nudge(SCHEDULES)
        return moments

    async def unskip(self, name: str) -> list[datetime]:
        start = self._room.audited(
            lambda: schedules.unskip(name, self._room.editor()),
            lambda moments: deeds.deed("schedules.unskip", deeds.schedule(name), moments=moments),
        )
        moments = await self._room.insist(start)
        self._room.nudge(SCHEDULES)
        return moments

    async def rewind(self, name: str, *, to: datetime) -> StoredSchedule:
        return await self._changed(
            lambda: schedules.rewind(name, to, self._room.editor()),
            deeds.constant("schedules.rewind", deeds.schedule(name), to=to),
        )

    async def run(self, name: str) -> StoredFire:
        start = self._room.audited(
            self._room.numbered(
                1,
                lambda numbers: schedules.run(name, numbers[0], self._room.editor()),
            ),
            lambda fire: deeds.deed(
                "schedules.run", deeds.schedule(name), outcome=fire.outcome, job=fire.job_id
            ),
        )
        fire = await self._room.insist(start)
        self._room.nudge(SCHEDULES, READY)
        return fire

    async def backfill(
        self,
        name: str,
        *,
        since: datetime,
        until: datetime,
        again: bool = False,
        dry_run: bool = False,
    ) -> Backfill:
        wanted = backfilling.BackfillRequest(name=name, since=since, until=until, again=again)
        if dry_run:
            return await self._room.read(lambda: backfilling.foresee(wanted, decide=decide))
        start = self._room.audited(
            self._room.numbered(
                1,
                lambda numbers: backfilling.backfill(
                    replace(wanted, number=numbers[0]), self._room.editor()
                ),
            ),
            lambda done: deeds.backfilled(done, again=again),
        )
        done = await self._room.insist(start)
        self._room.nudge(SCHEDULES, READY)
        return done

    async def remove(self, name: str) -> None:
        await self._changed(
            lambda: schedules.remove(name, self._room.editor()),
            deeds.constant("schedules.remove", deeds.schedule(name)),
        )

    async def changes(self, name: str, *, limit: int = 100) -> list[tuple[datetime, str, str]]:
        return await self._room.read(lambda: schedules.changes(name, limit))

    async def declare(
        self,
        app: str,
        mark: str,
        wanted: Sequence[WantedSchedule],
        *,
        whole: bool = True,
        held: bool = False,
    ) -> Declared:
        declared = await self._room.insist(
            lambda: declaring.declare(
                app,
                mark,
                wanted,
                whole=whole,
                held=held,
                decide=decide,
                ids=self._room.attempt(),
            )
        )
        if declared.written:
            self._room.nudge(SCHEDULES)
        return declared

    async def in_code(self, name: str) -> tuple[str, Plan] | None:
        return await self._room.read(lambda: declaring.in_code(name))

    async def removed(self) -> list[tuple[str, str]]:
        return await self._room.read(declaring.removed)

    async def applied(self, file: str) -> str | None:
        return await self._room.read(lambda: applying.applied(file))

    async def standing(self, names: Sequence[str]) -> StoredDefinitions:
        return await self._room.read(lambda: applying.standing(names))

    async def apply(
        self, file: str, *, expected: str | None, record: str, steps: Sequence[Step]
    ) -> None:
        wanted = applying.Application(file, 0, expected=expected, record=record, steps=steps)
        start = self._room.audited(
            self._room.numbered(
                1,
                lambda numbers: applying.apply(
                    replace(wanted, number=numbers[0]), self._room.editor()
                ),
            ),
            lambda _: deeds.applied(file, steps),
        )
        await self._room.insist(start)
        self._room.nudge(SCHEDULES, QUEUES, READY)
        for queue in wanted.turned:
            after: int | None = 0
            while after is not None:
                after = await self._room.insist(partial(work.set_fair, queue, after=after))

    async def _changed(self, start: Start[T], tell: Callable[[T], Deed]) -> T:
        changed = await self._room.write(self._room.audited(start, tell))
        self._room.nudge(SCHEDULES)
        return changed


class SqlLedger:
    def __init__(self, room: Transactions) -> None:
        self._room = room

    async def fire(self, decide: Decide, *, limit: int, trust: Trust) -> FiringResult:
        fired = await self._fire(decide, limit=limit, trust=trust)
        if fired.settled and not fired.distrusted:
            # In a transaction of its own: it may be slow, and the others are written already.
            fired += await self._fire(decide, limit=limit, trust=trust, settled=True)
        return fired

    async def _fire(
        self, decide: Decide, *, limit: int, trust: Trust, settled: bool = False
    ) -> FiringResult:
        release = zone_data_version()
        fired = await self._room.write(
            lambda: ledger.fire(
                decide,
                limit=limit,
                zone_data=release,
                ids=self._room.attempt(),
                trust=trust,
                settled=settled,
            )
        )
        if fired.later:
            self._room.nudge(JOBS)
        if fired.jobs > fired.later:
            self._room.nudge(READY)
        return fired

    async def foresee(self, name: str, decide: Decide) -> Firing:
        return await self._room.read(lambda: schedules.foresee(name, decide))

    async def refresh(self, *, after: int = 0, limit: int = 500) -> int | None:
        return await self._room.write(lambda: schedules.refresh(after, limit))

    async def fires(
        self,
        name: str,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        limit: int = 100,
    ) -> list[StoredFire]:
        return await self._room.read(lambda: fires.listed(name, since, until, limit))

    async def latest(self, numbers: Sequence[int]) -> dict[int, StoredFire]:
        return await self._room.read(lambda: fires.latest(numbers))

    async def recent(
        self, numbers: Sequence[int], *, limit: int = 20
    ) -> dict[int, list[StoredFire]]:
        return await self._room.read(lambda: fires.recent(numbers, limit))

    async def skipped_ahead(self, numbers: Sequence[int]) -> dict[int, frozenset[datetime]]:
        return await self._room.read(lambda: fires.skipped_ahead(numbers))

    async def covering(self, name: str, moment: datetime) -> StoredFire | None:
        return await self._room.read(lambda: fires.covering(name, moment))

"""Schedules, and the ledger of their due moments."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import TypeVar

from duly.instants import EPOCH, FIRST_US, LAST_US, from_us, to_us
from duly.model.access import AuditedAction
from duly.model.fire import Backfill, Cause, StoredFire
from duly.model.schedule import Pause, Plan, StoredSchedule
from duly.policy.firing import Firing, decide
from duly.rules import Spaced, zone_data_version
from duly.store import (
    applying,
    backfilling,
    declaring,
    ledger,
    rows,
    schedule_change,
    schedules,
    work,
)
from duly.store.database import Ask, Operation, Start
from duly.store.nouns import audited_actions as deeds
from duly.store.schedule_record import schedule_record
from duly.store.values import (
    JOBS,
    QUEUES,
    READY,
    SCHEDULES,
    Decide,
    Declared,
    FiringResult,
    ScheduleRecord,
    Step,
    StoredDefinitions,
    Trust,
    WantedSchedule,
)
from duly.store.verbs import Noun, reads, verb

T = TypeVar("T")


class ScheduleStore(Noun):
    @verb("operator")
    async def add(self, plans: Sequence[Plan]) -> list[StoredSchedule]:
        """Add schedules, all or none; ``ScheduleExists`` if a name is taken."""
        start = self._db.numbered(len(plans), lambda numbers: schedules.add(plans, numbers))
        added = await self._db.insist(self._db.audited(start, lambda _: deeds.added(plans)))
        self._db.nudge(SCHEDULES)
        return added

    @reads("viewer")
    def get(self, name: str) -> Operation[StoredSchedule]:
        return schedule_change.get(name)

    @reads("viewer")
    def record(
        self, name: str, *, until: datetime | None = None, limit: int = 100, changes: int = 20
    ) -> Operation[ScheduleRecord]:
        """Return a schedule with its last runs due before ``until`` (now), in one transaction."""
        return schedule_record(name, until, limit, changes)

    @reads("viewer")
    def page(self, *, after: str = "", limit: int = 100) -> Operation[list[StoredSchedule]]:
        """Return schedules in name order, starting after the name ``after``."""
        return schedules.listed(after, limit)

    @verb("operator")
    async def edit(self, name: str, change: Callable[[Plan], Plan]) -> StoredSchedule:
        """Change a plan. Moments due before the change are decided by the old plan."""
        seen: list[tuple[Plan, Plan]] = []

        def noted(old: Plan) -> Plan:
            seen[:] = [(old, change(old))]
            return seen[0][1]

        return await self._changed(
            lambda: schedules.edit(name, noted, self._db.editor()),
            lambda _: deeds.edited(name, *seen[0]),
        )

    @verb("operator")
    async def pause(
        self,
        name: str,
        *,
        until: datetime | None = None,
        note: str = "",
        catch_up: bool = False,
    ) -> StoredSchedule:
        wanted = Pause(since=EPOCH, until=until, by=self._db.who, note=note, catch_up=catch_up)
        return await self._changed(
            lambda: schedules.pause(name, wanted, self._db.editor()),
            deeds.constant(
                "schedules.pause",
                deeds.schedule(name),
                until=until,
                note=note,
                catch_up=catch_up or None,
            ),
        )

    @verb("operator")
    async def resume(self, name: str) -> StoredSchedule:
        return await self._changed(
            lambda: schedules.resume(name, self._db.editor()),
            deeds.constant("schedules.resume", deeds.schedule(name)),
        )

    @verb("operator")
    async def skip_next(self, name: str, *, count: int = 1) -> list[datetime]:
        """Skip the next moments in advance: enter them into the ledger as skipped."""
        schedules.check_skipped(count)
        start = self._db.audited(
            self._db.numbered(
                count,
                lambda numbers: schedules.skip_next(name, numbers, self._db.editor()),
            ),
            lambda moments: deeds.deed(
                "schedules.skip_next", deeds.schedule(name), moments=moments
            ),
        )
        moments = await self._db.insist(start)
        self._db.nudge(SCHEDULES)
        return moments

    @verb("operator")
    async def unskip(self, name: str) -> list[datetime]:
        """Take back every moment ahead that was skipped in advance; return these moments."""
        start = self._db.audited(
            lambda: schedules.unskip(name, self._db.editor()),
            lambda moments: deeds.deed("schedules.unskip", deeds.schedule(name), moments=moments),
        )
        moments = await self._db.insist(start)
        self._db.nudge(SCHEDULES)
        return moments

    @verb("admin")
    async def rewind(self, name: str, *, to: datetime) -> StoredSchedule:
        """Set the cursor back, after a clock ran ahead. No moment is fired twice."""
        return await self._changed(
            lambda: schedules.rewind(name, to, self._db.editor()),
            deeds.constant("schedules.rewind", deeds.schedule(name), to=to),
        )

    @verb("operator")
    async def run(self, name: str) -> StoredFire:
        """Fire once, now, under the schedule's overlap policy."""
        start = self._db.audited(
            self._db.numbered(
                1,
                lambda numbers: schedules.run(name, numbers[0], self._db.editor()),
            ),
            lambda fire: deeds.deed(
                "schedules.run", deeds.schedule(name), outcome=fire.outcome, job=fire.job_id
            ),
        )
        fire = await self._db.insist(start)
        self._db.nudge(SCHEDULES, READY)
        return fire

    @verb("operator")
    async def backfill(
        self,
        name: str,
        *,
        since: datetime,
        until: datetime,
        again: bool = False,
        dry_run: bool = False,
    ) -> Backfill:
        """Enqueue a job for each past moment that had none; with ``again``, for all.

        From ``since`` up to ``until``, all or none. The moments are those of the present rule.
        """
        wanted = backfilling.BackfillRun(name=name, since=since, until=until, again=again)
        if dry_run:
            return await self._db.read(lambda: backfilling.foresee(wanted, decide=decide))
        start = self._db.audited(
            self._db.numbered(
                1,
                lambda numbers: backfilling.backfill(
                    replace(wanted, number=numbers[0]), self._db.editor()
                ),
            ),
            lambda done: deeds.backfilled(done, again=again),
        )
        done = await self._db.insist(start)
        self._db.nudge(SCHEDULES, READY)
        return done

    @verb("operator")
    async def remove(self, name: str) -> None:
        await self._changed(
            lambda: schedules.remove(name, self._db.editor()),
            deeds.constant("schedules.remove", deeds.schedule(name)),
        )

    @reads("viewer")
    def changes(self, name: str, *, limit: int = 100) -> Operation[list[tuple[datetime, str, str]]]:
        return schedules.changes(name, limit)

    @verb(None)
    async def declare(
        self,
        app: str,
        mark: str,
        wanted: Sequence[WantedSchedule],
        *,
        whole: bool = True,
        held: bool = False,
    ) -> Declared:
        """Announce the set of schedules that an app's code declares; the newest set is written.

        A set that is not ``whole`` yields to one that is, and pauses nothing. A process that has
        ``held`` the app's declaration before takes it back from an older set.
        """
        declared = await self._db.insist(
            lambda: declaring.declare(
                app,
                mark,
                wanted,
                whole=whole,
                held=held,
                decide=decide,
                ids=self._db.attempt(),
            )
        )
        if declared.written:
            self._db.nudge(SCHEDULES)
        return declared

    @reads("viewer")
    def in_code(self, name: str) -> Operation[tuple[str, Plan] | None]:
        """Return the app whose code declares a schedule, and its plan; None if no code does."""
        return declaring.in_code(name)

    @reads("viewer")
    def removed(self) -> Operation[list[tuple[str, str]]]:
        """Return the schedules, with their apps, that code declares and a person removed."""
        return declaring.removed()

    @reads("operator")
    def applied(self, file: str) -> Operation[str | None]:
        """Return the text of the file that was last applied under this name."""
        return applying.applied(file)

    @reads("operator")
    def standing(self, names: Sequence[str]) -> Operation[StoredDefinitions]:
        """Return the schedules of these names, and all queues and limits that were set."""
        return applying.standing(names)

    @verb("operator")
    async def apply(
        self, file: str, *, expected: str | None, record: str, steps: Sequence[Step]
    ) -> None:
        """Take all steps and store ``record`` as the applied text; or ``WrongState``, and nothing.

        ``expected`` is the text that was last applied when the steps were planned.
        """
        wanted = applying.Application(file, 0, expected=expected, record=record, steps=steps)
        start = self._db.audited(
            self._db.numbered(
                1,
                lambda numbers: applying.apply(
                    replace(wanted, number=numbers[0]), self._db.editor()
                ),
            ),
            lambda _: deeds.applied(file, steps),
        )
        await self._db.insist(start)
        self._db.nudge(SCHEDULES, QUEUES, READY)
        for queue in wanted.turned:
            after: int | None = 0
            while after is not None:
                after = await self._db.insist(partial(work.set_fair, queue, after=after))

    async def _changed(self, start: Start[T], tell: Callable[[T], AuditedAction]) -> T:
        changed = await self._db.write(self._db.audited(start, tell))
        self._db.nudge(SCHEDULES)
        return changed


class LedgerStore(Noun):
    @verb(None)
    async def fire(self, decide: Decide, *, limit: int, trust: Trust) -> FiringResult:
        """Claim due schedules, decide, and write fires, jobs and next moments at once."""
        fired = await self._fire(decide, limit=limit, trust=trust)
        if fired.settled and not fired.distrusted:
            # In a transaction of its own: it may be slow, and the others are written already.
            fired += await self._fire(decide, limit=limit, trust=trust, settled=True)
        return fired

    async def _fire(
        self, decide: Decide, *, limit: int, trust: Trust, settled: bool = False
    ) -> FiringResult:
        release = zone_data_version()
        fired = await self._db.write(
            lambda: ledger.fire(
                decide,
                limit=limit,
                zone_data=release,
                ids=self._db.attempt(),
                trust=trust,
                settled=settled,
            )
        )
        if fired.later:
            self._db.nudge(JOBS)
        if fired.jobs > fired.later:
            self._db.nudge(READY)
        return fired

    @reads(None)
    def foresee(self, name: str, decide: Decide) -> Operation[Firing]:
        """Return what firing now would do, without doing it."""
        return schedules.foresee(name, decide)

    @verb(None)
    async def refresh(self, *, after: int = 0, limit: int = 500) -> int | None:
        """Recompute next moments that were computed with older zone data.

        Return the cursor to continue after, or None at the end.
        """
        return await self._db.write(lambda: schedules.refresh(after, limit))

    @reads("viewer")
    def fires(
        self,
        name: str,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        limit: int = 100,
    ) -> Operation[list[StoredFire]]:
        """Return the ledger rows of a schedule, the newest first."""
        number = yield from schedule_change.number_of(name)
        found = yield Ask(
            "list_fires",
            {
                "schedule_id": number,
                "since": to_us(since) if since else FIRST_US,
                "until": to_us(until) if until else LAST_US,
                "limit": limit,
            },
        )
        return [rows.fire(row) for row in found]

    @reads("viewer")
    def latest(self, numbers: Sequence[int]) -> Operation[dict[int, StoredFire]]:
        """Return the last decided moment of each of these schedules."""
        found = [rows.fire(row) for row in (yield Ask("latest_fires", {"ids": list(numbers)}))]
        return {fire.schedule_id: fire for fire in found}

    @reads("viewer")
    def recent(
        self, numbers: Sequence[int], *, limit: int = 20
    ) -> Operation[dict[int, list[StoredFire]]]:
        """Return the last decided moments of each of these schedules, the newest first."""
        found: dict[int, list[StoredFire]] = {number: [] for number in numbers}
        for row in (yield Ask("recent_fires", {"ids": list(numbers), "limit": limit})):
            fire = rows.fire(row)
            found[fire.schedule_id].append(fire)
        return {number: fires[:limit] for number, fires in found.items()}

    @reads("viewer")
    def skipped_ahead(self, numbers: Sequence[int]) -> Operation[dict[int, frozenset[datetime]]]:
        """Return the moments to come that were skipped in advance, by schedule."""
        found: dict[int, set[datetime]] = {}
        for number, moment in (yield Ask("skipped_ahead", {"ids": list(numbers)})):
            found.setdefault(number, set()).add(from_us(moment))
        return {number: frozenset(moments) for number, moments in found.items()}

    @reads("viewer")
    def covering(self, name: str, moment: datetime) -> Operation[StoredFire | None]:
        """Return the ledger row that accounts for a moment: its own, or the stretch that covers it.

        Stretches of different kinds may overlap: the days that a calendar excludes lie between
        those that were missed. The rule tells to which of the two a moment belongs.
        """
        schedule = yield from schedule_change.get(name)
        values = {"schedule_id": schedule.id, "moment": to_us(moment)}
        found = [rows.fire(row) for row in (yield Ask("covering_fires", values))]
        own = [fire for fire in found if fire.due_at == moment]
        if own:
            return own[0]
        kept = schedule.plan.kept
        excluded = not isinstance(kept, Spaced) and kept.at_or_before(moment) != moment
        same_kind = [fire for fire in found if (fire.cause is Cause.EXCLUDED) is excluded]
        # The rule may have been another one when the moment was due.
        return next(iter(same_kind or found), None)

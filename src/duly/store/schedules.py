"""Schedules, and the ledger of their due moments."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Final, TypeVar

from duly.instants import EPOCH, FIRST_US, LAST_US, from_us, to_us
from duly.model.fire import Backfill, Cause, StoredFire
from duly.model.schedule import Pause, Plan, ScheduleChange, StoredSchedule
from duly.policy.decision import Firing
from duly.policy.firing import decide
from duly.rules import Spaced, zone_data_version
from duly.store import (
    applied_files,
    audit,
    backfill,
    declarations,
    ledger,
    rows,
    schedule_changes,
    work,
)
from duly.store.database import Ask, Operation, Start, current_time
from duly.store.declarations import Declared, WantedSchedule
from duly.store.ledger import FiringResult
from duly.store.values import QUEUES, READY, SCHEDULES, Decide, Offer, RunTimes, Step, Trust
from duly.store.verbs import Noun, reading, reads, verb


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleRecord:
    """Everything that is known about one schedule, read in one transaction."""

    now: datetime
    schedule: StoredSchedule
    skipped: frozenset[datetime]  # future runs that are skipped in advance
    fires: Sequence[StoredFire]  # the newest first
    runs: Mapping[int, RunTimes]  # of their jobs, by number
    declared: tuple[str, Plan] | None  # the app whose code declares it, and its plan there
    changes: Sequence[ScheduleChange]  # the newest first


T = TypeVar("T")


class ScheduleStore(Noun):
    @verb("operator")
    async def add(self, plans: Sequence[Plan], *, paused: bool = False) -> list[StoredSchedule]:
        """Add schedules, all or none; ``ScheduleExists`` if a name is taken."""
        pause = Pause(since=EPOCH, by=self._db.who) if paused else None
        start = self._db.numbered(
            len(plans), lambda numbers: schedule_changes.add(plans, numbers, pause=pause)
        )
        return await self._db.change(start, lambda _: audit.added(plans), SCHEDULES, insist=True)

    get: Final = reading("viewer", schedule_changes.get)
    in_code: Final = reading("viewer", declarations.in_code)
    applied: Final = reading("operator", applied_files.applied)
    standing: Final = reading("operator", applied_files.standing)

    @reads("viewer")
    def removed(self) -> Operation[list[tuple[str, str]]]:
        """Return the schedules, with their apps, that code declares and a person removed."""
        return declarations.removed()

    @reads("viewer")
    def record(
        self, name: str, *, until: datetime | None = None, limit: int = 100, changes: int = 20
    ) -> Operation[ScheduleRecord]:
        """Return a schedule with its last runs due before ``until`` (now), in one transaction."""
        row = yield from schedule_changes.row_of(name)
        schedule = rows.schedule(row)
        [(now,)] = yield Ask("now")
        last = now if until is None else to_us(until)
        stretch = {"schedule_id": schedule.id, "since": FIRST_US, "until": last, "limit": limit}
        fires = [rows.fire(row) for row in (yield Ask("list_fires", stretch))]
        jobs = [fire.job_id for fire in fires if fire.job_id is not None]
        skipped = yield Ask("skipped_ahead", {"ids": [schedule.id]})
        noted = yield Ask("list_changes", {"schedule_id": schedule.id, "limit": changes})
        return ScheduleRecord(
            now=from_us(now),
            schedule=schedule,
            skipped=frozenset(from_us(moment) for _, moment in skipped),
            fires=fires,
            runs=rows.run_times((yield Ask("runs_of", {"ids": jobs}))) if jobs else {},
            declared=(yield from declarations.declared_plan(name, row)),
            changes=[ScheduleChange(from_us(at), who, what) for at, who, what in noted],
        )

    @reads("viewer")
    def page(self, *, after: str = "", limit: int = 100) -> Operation[list[StoredSchedule]]:
        """Return schedules in name order, starting after the name ``after``."""
        found = yield Ask("list_schedules", {"after": after, "limit": limit})
        return [rows.schedule(row) for row in rows.schedules(found)]

    @verb("operator")
    async def edit(self, name: str, change: Callable[[Plan], Plan]) -> StoredSchedule:
        """Change a plan. Moments due before the change are decided by the old plan."""
        seen: list[tuple[Plan, Plan]] = []

        def noted(old: Plan) -> Plan:
            seen[:] = [(old, change(old))]
            return seen[0][1]

        return await self._db.change(
            lambda: schedule_changes.edit(name, noted, self._db.editor()),
            lambda _: audit.edited(name, *seen[0]),
            SCHEDULES,
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
        return await self._change(
            "schedules.pause",
            name,
            lambda: schedule_changes.pause(name, wanted, self._db.editor()),
            until=until,
            note=note,
            catch_up=catch_up or None,
        )

    @verb("operator")
    async def resume(self, name: str) -> StoredSchedule:
        return await self._change(
            "schedules.resume", name, lambda: schedule_changes.resume(name, self._db.editor())
        )

    @verb("operator")
    async def skip_next(self, name: str, *, count: int = 1) -> list[datetime]:
        """Skip the next moments in advance: enter them into the ledger as skipped."""
        schedule_changes.check_skipped(count)
        start = self._db.numbered(
            count, lambda numbers: schedule_changes.skip_next(name, numbers, self._db.editor())
        )
        return await self._db.change(
            start,
            lambda moments: audit.entry(
                "schedules.skip_next", audit.schedule(name), moments=moments
            ),
            SCHEDULES,
            insist=True,
        )

    @verb("operator")
    async def unskip(self, name: str) -> list[datetime]:
        """Take back every moment ahead that was skipped in advance; return these moments."""
        return await self._db.change(
            lambda: schedule_changes.unskip(name, self._db.editor()),
            lambda moments: audit.entry("schedules.unskip", audit.schedule(name), moments=moments),
            SCHEDULES,
            insist=True,
        )

    @verb("admin")
    async def rewind(self, name: str, *, to: datetime) -> StoredSchedule:
        """Set the cursor back, after a clock ran ahead. No moment is fired twice."""
        return await self._change(
            "schedules.rewind",
            name,
            lambda: schedule_changes.rewind(name, to, self._db.editor()),
            to=to,
        )

    @verb("operator")
    async def run(self, name: str) -> StoredFire:
        """Fire once, now, under the schedule's overlap policy."""
        start = self._db.numbered(
            1, lambda numbers: schedule_changes.run(name, numbers[0], self._db.editor())
        )
        return await self._db.change(
            start,
            lambda fire: audit.entry(
                "schedules.run", audit.schedule(name), outcome=fire.outcome, job=fire.job_id
            ),
            *(SCHEDULES, READY),
            insist=True,
        )

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
        wanted = backfill.BackfillRun(name=name, since=since, until=until, again=again)
        if dry_run:
            return await self._db.read(lambda: backfill.foresee_backfill(wanted, decide=decide))
        start = self._db.numbered(
            1,
            lambda numbers: backfill.backfill(
                replace(wanted, number=numbers[0]), self._db.editor()
            ),
        )
        return await self._db.change(
            start,
            lambda done: audit.backfilled(done, again=again),
            *(SCHEDULES, READY),
            insist=True,
        )

    @verb("operator")
    async def remove(self, name: str) -> None:
        await self._change(
            "schedules.remove", name, lambda: schedule_changes.remove(name, self._db.editor())
        )

    @reads("viewer")
    def changes(self, name: str, *, limit: int = 100) -> Operation[list[ScheduleChange]]:
        number = yield from schedule_changes.number_of(name)
        found = yield Ask("list_changes", {"schedule_id": number, "limit": limit})
        return [ScheduleChange(from_us(at), who, what) for at, who, what in found]

    @verb(None)
    async def declare(
        self,
        app: str,
        mark: str,
        wanted: Sequence[WantedSchedule],
        *,
        whole: bool = True,
        was_in_force: bool = False,
    ) -> Declared:
        """Announce the set of schedules that an app's code declares; the newest set is written.

        A set that is not ``whole`` yields to one that is, and pauses nothing. A process that has
        held the app's declaration before (``was_in_force``) takes it back from an older set.
        """
        declared = await self._db.insist(
            lambda: declarations.declare(
                app,
                mark,
                wanted,
                whole=whole,
                was_in_force=was_in_force,
                decide=decide,
                ids=self._db.attempt(),
            )
        )
        if declared.written:
            self._db.nudge(SCHEDULES)
        return declared

    @verb("operator")
    async def apply(
        self, file: str, *, expected: str | None, record: str, steps: Sequence[Step]
    ) -> None:
        """Take all steps and store ``record`` as the applied text; or ``WrongState``, and nothing.

        ``expected`` is the text that was last applied when the steps were planned.
        """
        wanted = applied_files.Application(file, 0, expected=expected, record=record, steps=steps)
        start = self._db.numbered(
            1,
            lambda numbers: applied_files.apply(
                replace(wanted, number=numbers[0]), self._db.editor()
            ),
        )
        await self._db.change(
            start,
            lambda _: audit.applied(file, steps),
            *(SCHEDULES, QUEUES, READY),
            insist=True,
        )
        for queue in wanted.fairness_changed:
            after: int | None = 0
            while after is not None:
                after = await self._db.insist(partial(work.set_fair, queue, after=after))

    async def _change(self, action: str, name: str, start: Start[T], **details: object) -> T:
        """Change a schedule and record the action with these details in the audit log."""
        return await self._db.change(
            start, lambda _: audit.entry(action, audit.schedule(name), **details), SCHEDULES
        )


class LedgerStore(Noun):
    @verb(None)
    async def fire(
        self, decide: Decide, *, limit: int, trust: Trust, offer: Offer | None = None
    ) -> FiringResult:
        """Claim due schedules, decide, and write fires, jobs and next moments at once.

        With an ``offer``, claim a job too; after ``OutcomeUnknown``, ask ``claimed_by``.
        """
        fired = await self._fire(decide, limit=limit, trust=trust, offer=offer)
        if fired.settled and not fired.distrusted:
            # In a transaction of its own: it may be slow, and the others are written already.
            fired += await self._fire(decide, limit=limit, trust=trust, settled=True)
        return fired

    async def _fire(
        self,
        decide: Decide,
        *,
        limit: int,
        trust: Trust,
        settled: bool = False,
        offer: Offer | None = None,
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
                at_once=self._db.database.dialect.writes_at_once,
                offer=offer,
            )
        )
        self._db.nudge(*sorted(fired.topics))
        return fired

    @reads(None)
    def foresee(self, name: str, decide: Decide) -> Operation[Firing]:
        """Return what firing now would do, without doing it."""
        row = yield from schedule_changes.row_of(name)
        now = yield from current_time()
        [facts] = yield from ledger.known([rows.schedule(row)], [row], now=now, hold=False)
        return decide(facts, now)

    @verb(None)
    async def refresh(self, *, after: int = 0, limit: int = 500) -> int | None:
        """Recompute next moments that were computed with older zone data.

        Return the cursor to continue after, or None at the end.
        """
        return await self._db.write(lambda: schedule_changes.refresh(after, limit))

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
        number = yield from schedule_changes.number_of(name)
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
        schedule = yield from schedule_changes.get(name)
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

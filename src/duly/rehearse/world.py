"""A simulated world for one schedule: a store, a scheduler and a worker with unlimited slots.

Time jumps from one event to the next. In an outage nothing is done at all, and jobs that run when
it begins are lost with their worker. At the end of the outage the loss is detected at once, as on
the machine of a killed process: the run is taken back, and starts again if its retries allow it.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final, TypeAlias

from duly.engine.maintenance import judged
from duly.errors import InvalidValue
from duly.model.access import Actor
from duly.model.fire import StoredFire
from duly.model.job import Claimed
from duly.model.outcome import Late, Outcome, Stopped, Succeeded, TimedOut
from duly.model.worker import Profile
from duly.policy.decision import Facts, Firing
from duly.policy.firing import decide
from duly.policy.verdict import Tried, judge
from duly.rehearse.story import StoryAttempt, Unended, WhatIf
from duly.rules import Spaced
from duly.store.store import Store
from duly.store.values import ClaimRequest, Settlement

BATCH: Final = 1_000
PLENTY: Final = 2**31 - 1
LEASE: Final = timedelta(days=36_500)  # only an outage ends it
MIDDLE: Final = 0.5  # of the dice: a retry waits just as long as was said
# A row is read, decided and written for each; with more of them something goes round in a circle.
MOST_STEPS: Final = 200_000
AT_ONCE = timedelta()

Enough: TypeAlias = Callable[[], Awaitable[bool]]


class WorldClock:
    """A clock that stands still until it is set."""

    def __init__(self, moment: datetime) -> None:
        self.moment = moment

    def __call__(self) -> datetime:
        return self.moment


@dataclass(frozen=True, slots=True)
class _Running:
    job: Claimed
    end: datetime
    outcome: Outcome


class World:
    def __init__(self, store: Store, clock: WorldClock, what: WhatIf) -> None:
        self.what = what
        self.asked: frozenset[datetime] = frozenset(fire.due_at for fire in what.asked)
        self.fired: int = 0
        self._store = store
        self._clock = clock
        self._attempts: dict[int | None, list[StoryAttempt]] = {}  # of each moment in the ledger
        self._running: dict[int, _Running] = {}
        self._open = 0  # jobs that have not ended
        self._fire_at: datetime | None = what.start
        self._look_at: datetime | None = None  # when a job that waits is due, or late
        self._worker = 0
        self._steps = 0

    async def begin(self) -> None:
        """Go to the start, with the schedule added and a worker registered."""
        start = self.what.start
        # A fixed delay is due when it begins; all others, at the first moment behind that.
        before = start if isinstance(self.what.plan.kept, Spaced) else start - timedelta.resolution
        await self._enlist()
        if self.what.unended is None:
            self._clock.moment = before
            await self._store.schedules.add([self.what.plan])
        else:
            await self._take_on(self.what.unended, before)
        pause = self.what.pause
        if pause is not None:
            by = self._store.acting(Actor(pause.by, "program"))
            await by.schedules.pause(
                self.what.plan.name,
                until=pause.until,
                note=pause.note,
                catch_up=pause.catch_up,
            )
        self._clock.moment = start

    async def _take_on(self, run: Unended, before: datetime) -> None:
        """Add a run that began before the start.

        Other runs that were due then are not simulated.
        """
        schedules, name = self._store.schedules, self.what.plan.name
        self._clock.moment = run.due_at
        await schedules.add([self.what.plan])
        await schedules.run(name)
        await schedules.pause(name)
        self._open += 1
        self._clock.moment = run.begun_at
        await self._claim()
        self._clock.moment = before
        await schedules.resume(name)

    async def pass_to(self, end: datetime, *, enough: Enough | None = None) -> None:
        """Let time pass to ``end``, or until ``enough`` returns true."""
        while True:
            await self._end_runs()
            outage = next((o for o in self.what.outages if o.start <= self.now < o.end), None)
            if outage is not None:
                await self._cut_off(outage.end)
                continue
            following = await self._next_event()
            if following is None or following > end or (enough and await enough()):
                self._clock.moment = end
                return
            self._clock.moment = following

    async def leave(self) -> None:
        """End the lease of the worker; other workers take back its running jobs."""
        await self._store.work.end_lease(self._worker)

    @property
    def now(self) -> datetime:
        return self._clock.moment

    def attempts_of(self, fire: StoredFire) -> list[StoryAttempt]:
        """Return the attempts for this moment, oldest first; a running one with its expected end.

        Attempts are kept by moment and not by job: a job that was lost may stand for a newer moment
        afterwards.
        """
        ended = self._attempts.get(fire.id, [])
        run = None if fire.job_id is None else self._running.get(fire.job_id)
        if run is None or run.job.fire_id != fire.id:
            return ended
        return [*ended, StoryAttempt(run.job.moment(0), run.end, "runs")]

    def decide(self, facts: Facts, now: datetime) -> Firing:
        """Decide as the scheduler does; moments skipped in advance count as settled."""
        return decide(replace(facts, settled=facts.settled | self.asked), now)

    async def _next_event(self) -> datetime | None:
        """Do all that is due now and return the time of the next event."""
        while await self._keep_up():
            self._steps += 1
            if self._steps > MOST_STEPS:
                raise InvalidValue(f"too much happens until {self.now}: simulate a shorter stretch")
        ahead = [outage.start for outage in self.what.outages if outage.start > self.now]
        ahead += [run.end for run in self._running.values()]
        ahead += [moment for moment in (self._fire_at, self._look_at) if moment is not None]
        return min(ahead, default=None)

    async def _keep_up(self) -> bool:
        """Do one round of what is due; return whether there may be more to do at once."""
        fired = self._fire_at is not None and self._fire_at <= self.now and await self._fire()
        begun = bool(self._waiting) and await self._claim()
        moved = bool(self._waiting) and await self._dispatch()
        if not self._waiting:
            self._look_at = None
        return bool(await self._end_runs()) or fired or begun or moved

    @property
    def _waiting(self) -> int:
        """The number of jobs that wait for their first or next attempt."""
        return self._open - len(self._running)

    async def _fire(self) -> bool:
        fired = await self._store.ledger.fire(self.decide, limit=BATCH, trust=lambda _: True)
        self._fire_at = self._after(fired.rest)
        self.fired += fired.fires
        self._open += fired.jobs
        await self._stop_asked()
        return bool(fired.schedules)

    async def _dispatch(self) -> bool:
        moved = await self._store.maintenance.dispatch(limit=BATCH)
        self._look_at = self._after(moved.rest)
        self._open -= moved.expired
        return bool(moved.ready or moved.hurried or moved.expired)

    def _after(self, rest: timedelta | None) -> datetime | None:
        """Return the time to look again, at least one tick from now.

        A job is not late at its deadline, but after it.
        """
        return None if rest is None else self.now + max(rest, timedelta.resolution)

    async def _claim(self) -> bool:
        plan, before = self.what.plan, len(self._running)
        for queue, shelf, _ in await self._store.work.ready([plan.queue], [plan.task]):
            request = ClaimRequest(
                worker=self._worker,
                queue=queue,
                tasks=[plan.task],
                limit=BATCH,
                shelf=shelf,
                free=dict.fromkeys(plan.needs, PLENTY),
            )
            for job in (await self._store.work.claim(request)).jobs:
                self._running[job.id] = self._run(job)
        return len(self._running) > before

    def _run(self, job: Claimed) -> _Running:
        if job.is_late:
            return _Running(job, self.now, Late())
        timeout, runtime = job.terms.timeout, self.runtime(job)
        if timeout is not None and timeout < runtime:
            return _Running(job, self.now + timeout, TimedOut(timeout))
        return _Running(job, self.now + runtime, Succeeded())

    def runtime(self, job: Claimed) -> timedelta:  # noqa: ARG002 - for subclasses
        """Return how long the job runs if it is not stopped."""
        return self.what.runtime

    async def _stop_asked(self) -> None:
        """End the runs that were asked to stop, at once."""
        if not self._running or self.what.plan.policies.overlap != "replace":
            return
        beat = await self._store.work.listen_to(self._worker)
        for number, reason in (beat.signals if beat else {}).items():
            if number in self._running:
                self._running[number] = replace(
                    self._running[number], end=self.now, outcome=Stopped(reason)
                )

    async def _end_runs(self) -> bool:
        ended = [run for run in self._running.values() if run.end <= self.now]
        if not ended:
            return False
        settlements = [self._settlement(run) for run in ended]
        await self._store.work.settle(settlements)
        self._open -= sum(one.verdict.ready_at is None for one in settlements)
        for run in ended:
            self._record(run, type(run.outcome).__name__.lower())
        if isinstance(self.what.plan.kept, Spaced):
            self._fire_at = self.now  # its delay has begun
        return True

    def _settlement(self, run: _Running) -> Settlement:
        return Settlement(
            job=run.job,
            verdict=judge(Tried.of(run.job), run.outcome, self.now, dice=MIDDLE),
            outcome=type(run.outcome).__name__.lower(),
        )

    def _record(self, run: _Running, outcome: str) -> None:
        del self._running[run.job.id]
        if not isinstance(run.outcome, Late):
            attempt = StoryAttempt(run.job.moment(0), self.now, outcome)
            self._attempts.setdefault(run.job.fire_id, []).append(attempt)

    async def _cut_off(self, until: datetime) -> None:
        for run in list(self._running.values()):
            self._record(run, "lost")
        self._clock.moment = until
        await self._store.work.end_lease(self._worker)
        last = 0
        while True:
            taken = await self._store.maintenance.take_back(
                judged, after=last, margin=AT_ONCE, limit=BATCH
            )
            self._open -= taken.poisoned
            last = taken.last
            if not last:
                break
        self._fire_at = until
        await self._enlist()

    async def _enlist(self) -> None:
        plan = self.what.plan
        profile = Profile(
            name="simulated",
            queues=(plan.queue,),
            signatures={plan.task: ""},
            slots=PLENTY,
            resources=dict.fromkeys(plan.needs, PLENTY),
            isolates=True,
        )
        self._worker = (await self._store.work.register(profile, lease=LEASE)).id

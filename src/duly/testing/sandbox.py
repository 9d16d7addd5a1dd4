"""A store in memory, the real services, and a clock that moves only when told.

    with Sandbox(now="2027-01-03T23:00+01:00") as box:
        box.schedule(Plan(name="report", rule="02:00 Europe/Berlin", task="report"))
        box.travel("6h", down=True)  # nobody was running
        [fire] = box.travel("1s")

Nothing sleeps: ``travel`` goes from one due moment to the next, and at each lets the services work
until they have nothing more to do.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from datetime import datetime, timedelta
from traceback import format_exception
from types import TracebackType
from typing import Any, Self, TypeVar, get_args

from duly.app import connect, migrate_tables
from duly.durations import parse_duration
from duly.engine.dispatcher import Dispatcher
from duly.engine.loop import Service
from duly.engine.reaper import Reaper
from duly.engine.scheduler import Scheduler
from duly.errors import InvalidValue
from duly.model.claimed import Claimed
from duly.model.fire import Fire
from duly.model.job import Call, Job
from duly.model.outcome import Outcome, Raised, Succeeded
from duly.model.payload import encode
from duly.model.policies import check_moment
from duly.model.schedule import Plan, Schedule
from duly.model.worker import Profile, WorkerInfo
from duly.policy.verdict import Tried, judge
from duly.store.protocol import Settlement, Wish
from duly.testing.clock import VirtualClock

T = TypeVar("T")

LEASE = timedelta(days=36_500)  # a worker in a sandbox does not die
ALL_AT_ONCE = 1_000
MOST_STEPS = 100_000


class Sandbox:
    """Everything real but the clock and the work."""

    def __init__(self, *, now: datetime | str) -> None:
        self._clock = VirtualClock(_moment("now", now))
        self._runner = asyncio.Runner()
        self.store = connect(":memory:", clock=self._clock)
        steady = lambda: self._clock.now().timestamp()  # noqa: E731 - time passes alike for all
        self._services: list[Service] = [
            Scheduler(self.store, steady=steady),
            Dispatcher(self.store, steady=steady),
            Reaper(self.store),
        ]
        self._seen: set[int] = set()
        self._registered: WorkerInfo | None = None

    def __enter__(self) -> Self:
        self._runner.__enter__()
        self._await(self.store.open())
        self._await(migrate_tables(self.store))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._await(self.store.close())
        self._runner.__exit__(kind, error, trace)

    @property
    def now(self) -> datetime:
        return self._clock.now()

    def schedule(self, plan: Plan) -> Schedule:
        [added] = self._await(self.store.schedules.add([plan]))
        return added

    def enqueue(self, call: Call) -> Job:
        [number] = self._await(self.store.jobs.enqueue([call]))
        return self._await(self.store.jobs.get(number))

    def travel(self, to: str | timedelta | datetime, /, *, down: bool = False) -> list[Fire]:
        """Let time pass; what was entered into the ledger meanwhile, oldest first.

        ``down``: nobody runs meanwhile, and nothing is fired until the next journey.
        """
        timed = isinstance(to, datetime) or (isinstance(to, str) and to[4:5] == "-")
        end = _moment("to", to) if timed else self.now + parse_duration(to)  # type: ignore[arg-type]
        if end < self.now:
            raise InvalidValue(f"{end} has passed: time goes forward, and it is {self.now}")
        if down:
            self._clock.set(end)
            return []
        self._await(self._pass(end))
        return self._new_fires()

    def run(self, work: Callable[[Job], object] = lambda _: None) -> list[Job]:
        """Run every job that is ready, and what that frees; each as it is afterwards.

        Nothing runs by itself: until then, jobs wait. ``work`` stands for the task: what it returns
        is the result, what it raises makes the attempt fail; or it returns an ``Outcome``.
        """
        return self._await(self._work(work))

    def call(self, work: Coroutine[Any, Any, T], /) -> T:
        """Await anything of the store: ``box.call(box.store.schedules.pause("report"))``."""
        return self._await(work)

    def jobs(self) -> list[Job]:
        """Those that have not ended."""
        return self._await(self.store.jobs.page(limit=ALL_AT_ONCE))

    def fires(self, schedule: str, /) -> list[Fire]:
        """The ledger of a schedule, oldest first."""
        return self._await(self.store.ledger.fires(schedule, limit=ALL_AT_ONCE))[::-1]

    async def _pass(self, end: datetime) -> None:
        for _ in range(MOST_STEPS):
            rest = await self._settle_down()
            if self.now + rest > end:
                self._clock.set(end)
                return
            self._clock.advance(rest)
        raise InvalidValue(f"{end} is too far: {MOST_STEPS:,} moments were due before {self.now}")

    async def _settle_down(self) -> timedelta:
        """Let every service work until none has anything more to do: how long they rest."""
        while True:
            rests = [await service.tick() for service in self._services[:2]]
            await self._services[2].tick()
            if min(rests) > timedelta(0):
                return min(rests)

    async def _work(self, work: Callable[[Job], object]) -> list[Job]:
        done: list[int] = []
        while claimed := await self._claimed():
            await self.store.work.settle(
                [self._settled(job, _outcome(work, job.job)) for job in claimed]
            )
            done += [job.id for job in claimed]
        return [await self.store.jobs.get(number) for number in done]

    async def _claimed(self) -> list[Claimed]:
        """Everything that can be run, by a worker that knows every task and has all resources."""
        jobs = await self.store.jobs.page(limit=ALL_AT_ONCE)
        tasks = sorted({job.task for job in jobs})
        queues = sorted({job.queue for job in jobs})
        worker = await self._worker(tasks, queues)
        free = sum((Counter(job.needs) for job in jobs), Counter[str]())
        wishes = [
            Wish(
                worker=worker,
                queue=queue,
                tasks=tasks,
                limit=ALL_AT_ONCE,
                shelf=shelf,
                free=free,
            )
            for queue, shelf in await self.store.work.ready(queues)
        ]
        return [job for wish in wishes for job in (await self.store.work.claim(wish)).jobs]

    async def _worker(self, tasks: Sequence[str], queues: Sequence[str]) -> int:
        """Registered again when there are tasks that it did not know."""
        known = self._registered.tasks if self._registered else ()
        if self._registered is None or not set(tasks) <= set(known):
            signatures = dict.fromkeys([*known, *tasks], "sandbox")
            profile = Profile(name="sandbox", queues=tuple(queues), signatures=signatures)
            self._registered = await self.store.work.register(profile, lease=LEASE)
            while await self.store.upkeep.free_unfit(limit=ALL_AT_ONCE) >= ALL_AT_ONCE:
                pass
        return self._registered.id

    def _settled(self, job: Claimed, outcome: Outcome) -> Settlement:
        verdict = judge(Tried.of(job), outcome, self.now, dice=0.5)
        result = outcome.result if isinstance(outcome, Succeeded) else None
        word = type(outcome).__name__.lower()
        return Settlement(
            job=job,
            verdict=verdict,
            outcome=word,
            result=result,
            keep_result=job.terms.keep_result,
        )

    def _new_fires(self) -> list[Fire]:
        schedules: Sequence[Schedule] = self._await(self.store.schedules.page(limit=ALL_AT_ONCE))
        found = [fire for schedule in schedules for fire in self.fires(schedule.plan.name)]
        new = [fire for fire in found if fire.id not in self._seen]
        self._seen |= {fire.id for fire in new}
        return sorted(new, key=lambda fire: (fire.due_at, fire.id))

    def _await(self, work: Coroutine[Any, Any, T]) -> T:
        return self._runner.run(work)


def _moment(what: str, given: datetime | str) -> datetime:
    """A moment, or its ISO text."""
    try:
        moment = datetime.fromisoformat(given) if isinstance(given, str) else given
    except ValueError:
        raise InvalidValue(f"{what}={given!r}: an ISO time, as 2027-01-03T23:00+01:00") from None
    check_moment(what, moment)
    return moment


def _outcome(work: Callable[[Job], object], job: Job) -> Outcome:
    try:
        found = work(job)
    except Exception as error:  # noqa: BLE001 - the task's, whatever it is
        trace = "".join(format_exception(error))
        return Raised(error=type(error).__name__, message=str(error), traceback=trace)
    if isinstance(found, get_args(Outcome)):
        outcome: Outcome = found
        return outcome
    return Succeeded(None if found is None else encode(found, what="the result"))

"""A sandbox: the user's own app, on a store in memory and a clock that moves only when told.

    with Sandbox(duly, now="2027-01-03T23:00+01:00") as box:
        box.travel("6h", down=True)  # nothing was running
        [fire] = box.travel("1s")
        box.run()
        box.assert_enqueued(remind.bind(42))

Tasks belong to the app, so the app itself is put into the sandbox: until its end, every call of the
app, in the test or in a running task, uses the sandbox only. Afterwards the app is as before.
"""

import asyncio
import threading
from collections.abc import Coroutine, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Self, TypeVar, cast

from duly import clock
from duly.app.duly import Duly
from duly.app.job import Job
from duly.app.tasks import Call, Enqueueable
from duly.connection import LazyStore, is_on_a_loop
from duly.engine.executors.in_process import ThreadExecutor
from duly.errors import InvalidValue
from duly.model import job as model
from duly.model.job_filter import EVERYTHING, Filter, parse_filter
from duly.model.states import State
from duly.registry.app_loading import import_all
from duly.store.store import Store
from duly.sync import Portal
from duly.testing.clock import VirtualClock
from duly.testing.sandbox import assertions
from duly.testing.sandbox.assertions import Asked
from duly.testing.sandbox.store import SandboxStore
from duly.testing.sandbox.worker import CallersThread, WorkSession
from duly.views.fires import Fire

R = TypeVar("R")

# Of the app, as the owner of its schedules: one that is made inside of a test has no name.
NAME = "sandbox"


class Sandbox:
    """A sandbox, used by ``with`` or ``async with``; on a loop, await ``atravel`` and ``arun``.

    ``now`` is the time at which it begins; by default, the time of the machine's clock.
    """

    def __init__(self, app: Duly, *, now: datetime | str | None = None) -> None:
        if not isinstance(app, Duly):
            raise InvalidValue(f"Sandbox({app!r}): your app, as in  from tasks import duly")
        self._app = app
        began = clock.now() if now is None else assertions.moment_of("now", now)
        self._clock = VirtualClock(began)
        self._place = SandboxStore(self._clock)
        self._portal = Portal("duly-sandbox-tasks")
        self._lazy: LazyStore | None = None  # of the app, while it is away from it
        self._teller: clock.Teller | None = None
        self._busy = False

    def __enter__(self) -> Self:
        import_all(self._app.imports)
        _claim(self)
        try:
            self._place.open()
            self._place.do(self._declare)
            self._move_in()
        except BaseException:
            self._tidy_up()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._move_out()
        self._tidy_up()

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(self, *_: object) -> None:
        self.__exit__()

    @property
    def now(self) -> datetime:
        """The sandbox's current time, in the zone in which it was given."""
        return self._clock.now()

    # Do.

    def travel(self, to: str | timedelta | datetime, /, *, down: bool = False) -> list[Fire]:
        """Advance the clock by ``"6h"`` or to a time, and return the runs that fired, oldest first.

        Each due moment is fired on time, and jobs that are due become ready; ``run`` runs them.
        With ``down``, no scheduler runs meanwhile: the missed moments are decided when the next
        journey begins.
        """
        end = self._end(to)
        if down:
            self._clock.set(end)
            return []
        return self._place.do(lambda store: assertions.travel(store, self._clock, end))

    async def atravel(self, to: str | timedelta | datetime, /, *, down: bool = False) -> list[Fire]:
        end = self._end(to)
        if down:
            self._clock.set(end)
            return []
        return await self._place.ado(lambda store: assertions.travel(store, self._clock, end))

    def run(self, *, raising: bool = False) -> list[Job[Any]]:
        """Run the jobs that are ready, one after the other, and those that they make ready.

        No time passes. A failed job waits for its next attempt: travel there, and run again. With
        ``raising``, the first error of a task is raised here, and the jobs behind it wait.
        """
        if is_on_a_loop():
            raise InvalidValue("run() on an event loop would hold it up: await box.arun()")
        hands = CallersThread()
        stint = self._waited_for(self._worked(hands, raising=raising), hands)
        if stint.error is not None:
            raise stint.error
        return self._place.do(lambda store: self._handles(store, stint.started))

    async def arun(self, *, raising: bool = False) -> list[Job[Any]]:
        """Run jobs as ``run`` does, but on the running loop, with plain functions in threads."""
        stint = await self._worked(ThreadExecutor(), raising=raising)
        if stint.error is not None:
            raise stint.error
        return await self._place.ado(lambda store: self._handles(store, stint.started))

    # Ask: it takes no time, and may be done on a loop as well.

    def jobs(self, filter: str = "", /) -> list[Job[Any]]:  # noqa: A002 - what it is called
        """Return matching jobs, as ``"task:remind state:failed"``; by default all, oldest first."""
        wanted = parse_filter(filter)
        return self._place.do(lambda store: self._found(store, wanted))

    def fires(self, schedule: str, /) -> list[Fire]:
        """Return the runs of a schedule and their outcomes, oldest first."""
        return self._place.do(lambda store: assertions.history(store, schedule))

    def assert_enqueued(
        self,
        call: Call[R] | Enqueueable[..., R],
        /,
        *,
        at: str | timedelta | datetime | None = None,
    ) -> Job[R]:
        """Assert that a job of the call (``remind.bind(42)``) or task was enqueued; return it.

        If there are several, the first one is returned. ``at`` is the time the job is for, or how
        long from now that is. The queue, priority, key, tenant, title, tags and time that the call
        sets by ``using`` must match, too.
        """
        __tracebackhide__ = True
        there, moment, jobs = self._sought(call, at)
        if not there:
            raise AssertionError(assertions.missing(call, jobs, moment))
        [job, *_] = self._place.do(lambda store: self._handled(store, there[:1]))
        return job

    def assert_not_enqueued(
        self, call: Asked, /, *, at: str | timedelta | datetime | None = None
    ) -> None:
        """Assert that no such job is or was enqueued."""
        __tracebackhide__ = True
        there, moment, _ = self._sought(call, at)
        if there:
            raise AssertionError(assertions.unwanted(call, there, moment))

    # How.

    def _move_in(self) -> None:
        app, enqueuer = self._app, self._app._enqueuer  # noqa: SLF001 - it is put where its own home was
        self._lazy = app._lazy  # noqa: SLF001
        app._lazy = enqueuer.lazy = self._lazy.instead = self._place  # noqa: SLF001
        self._teller = clock.choose(self._tell)

    def _move_out(self) -> None:
        home, self._lazy = self._lazy, None
        if home is not None:
            self._app._lazy = self._app._enqueuer.lazy = home  # noqa: SLF001
            home.instead = None
            clock.choose(self._teller)

    def _tidy_up(self) -> None:
        try:
            self._portal.close()
            self._place.shut()
        finally:
            _release(self)

    def _tell(self) -> datetime | None:
        """Return the sandbox's time; None after its end, so that the machine's clock counts."""
        return None if self._lazy is None else self._clock.now().astimezone(UTC)

    async def _declare(self, store: Store) -> None:
        said = self._app.declarations.announcement(NAME)
        await store.schedules.declare(said.app, said.mark, said.wanted)

    def _end(self, to: str | timedelta | datetime) -> datetime:
        end = assertions.end_of("travel", to, self.now)
        if end < self.now:
            raise InvalidValue(f"{end} has passed: time goes forward, and it is {self.now}")
        return end

    def _waited_for(
        self, work: Coroutine[Any, Any, WorkSession], hands: CallersThread
    ) -> WorkSession:
        """Run the work on a loop in a thread, and run its plain functions in this one meanwhile."""
        loop = self._portal.call(_here)
        future = asyncio.run_coroutine_threadsafe(work, loop)
        future.add_done_callback(lambda _: hands.dismiss())
        try:
            hands.serve()
            return future.result()
        except BaseException:
            future.cancel()
            raise

    async def _worked(self, plain: ThreadExecutor, *, raising: bool) -> WorkSession:
        if self._busy:
            raise InvalidValue("run() is under way: a job that it runs cannot run the others")
        self._busy = True
        afar = self._place.afar()
        stint = WorkSession(cast(Store, afar), self._app.registry, plain=plain, raising=raising)
        try:
            await stint.work()
        finally:
            self._busy = False
            afar.deafen()
        return stint

    async def _handles(self, store: Store, numbers: Sequence[int]) -> list[Job[Any]]:
        return await self._handled(store, [await store.jobs.get(number) for number in numbers])

    async def _found(self, store: Store, wanted: Filter) -> list[Job[Any]]:
        return await self._handled(store, await assertions.found(store, wanted))

    async def _handled(self, store: Store, jobs: Sequence[model.StoredJob]) -> list[Job[Any]]:
        handles: list[Job[Any]] = []
        for job in jobs:
            tried = job.attempt > 1 or job.state is State.FAILED
            attempts = await store.jobs.attempts(job.id) if tried else ()
            task = self._app.registry.find(job.task)
            handles.append(Job(self._place, job.id, job, task, attempts=attempts))
        return handles

    def _sought(
        self, call: Asked, at: str | timedelta | datetime | None
    ) -> tuple[list[model.StoredJob], datetime | None, list[model.StoredJob]]:
        """Return the matching jobs, the time that ``at`` stands for, and all jobs."""
        moment = None if at is None else assertions.end_of("at", at, self.now)
        jobs = self._place.do(lambda store: assertions.found(store, EVERYTHING))
        return assertions.matching(call, jobs, moment, self.now), moment, jobs


async def _here() -> asyncio.AbstractEventLoop:
    return asyncio.get_running_loop()


def _claim(box: Sandbox) -> None:
    """Register the open sandbox; refuse a second one, whose clock would conflict."""
    global _open  # noqa: PLW0603
    with _lock:
        if _open is not None:
            raise InvalidValue(
                f"a sandbox is open already, and it is {_open.now} there: leave it first; "
                "travel() moves its clock"
            )
        _open = box


def _release(box: Sandbox) -> None:
    global _open  # noqa: PLW0603
    with _lock:
        if _open is box:
            _open = None


_open: Sandbox | None = None
_lock = threading.Lock()

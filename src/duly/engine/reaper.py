"""The reaper: takes jobs back from workers whose lease has expired.

A long runtime is no reason: only the lease decides, by the store's clock. A worker that returns
later with a result holds an old fencing token, and the store refuses it.

A clock that was set forward expires every lease in the store, but not for the workers that hold
them. So the reaper asks the timekeeper; until the clock is trusted again it takes back only the
jobs of workers that ended their lease or are known to be dead.
"""

from datetime import datetime, timedelta

from duly.engine.timekeeper import LEASES, NO_REST, Caution, ClockedService, Timekeeper
from duly.events import Emit, JobsTakenBack, ignore_event
from duly.model.outcome import Lost
from duly.policy.verdict import Tried, Verdict, judge
from duly.store.store import Store
from duly.store.values import WORKERS, LostJob

# A renewal may be decided just before the expiry and committed just after it. It must not take
# longer than this; the worker that sends it makes sure of that (lease.PATIENCE).
MARGIN = timedelta(seconds=2)
EVERY = timedelta(seconds=1)


class Reaper(ClockedService):
    name = "reaper"
    batch = 500
    patient = True
    topics = frozenset({WORKERS})  # a worker whose lease was ended for it is dead

    def __init__(
        self,
        store: Store,
        *,
        emit: Emit = ignore_event,
        batch: int | None = None,
        margin: timedelta = MARGIN,
        timekeeper: Timekeeper | None = None,
        caution: Caution = LEASES,
    ) -> None:
        super().__init__(store, emit=emit, batch=batch, timekeeper=timekeeper)
        self._margin = margin
        self._caution = caution
        self._after = 0

    async def tick(self) -> timedelta:
        taken = await self._store.upkeep.take_back(
            judged,
            after=self._after,
            margin=self._margin,
            limit=self._batch,
            trust=self._timekeeper.ask(self._caution),
        )
        self._after = taken.last
        if taken.lost:
            self._emit(JobsTakenBack(count=taken.lost, poisoned=taken.poisoned))
        return NO_REST if taken.last else EVERY


def judged(job: LostJob, now: datetime) -> Verdict:
    """Decide about a job that was lost with its worker; it is retried at once, without jitter."""
    reason = "it has ended" if job.has_ended else "its lease ended"
    lost = Lost(worker=job.worker, reason=reason, alone=job.alone, name=job.worker_name)
    return judge(Tried.of(job), lost, now, dice=0.0)

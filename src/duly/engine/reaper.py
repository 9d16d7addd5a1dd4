"""The reaper: takes jobs back from workers whose lease has expired.

A long runtime is no reason: only the lease decides, by the store's clock. A worker that returns
later with a result holds an old fencing token, and the store refuses it.

A clock that was set forward expires every lease in the store, but not for the workers that hold
them. So the reaper asks the timekeeper; until the clock is trusted again it takes back only the
jobs of workers that ended their lease or are known to be dead.
"""

from datetime import datetime, timedelta
from typing import ClassVar, Unpack

from duly.engine.timekeeper import (
    A_WHILE,
    LEASES,
    NO_REST,
    Caution,
    ClockedService,
    ServiceOptions,
)
from duly.events import JobsTakenBack
from duly.model.outcome import Lost
from duly.policy.verdict import Tried, Verdict, judge
from duly.store.store import Store
from duly.store.values import LOST, WORKERS, LostJob

# A renewal may be decided just before the expiry and committed just after it. It must not take
# longer than this; the worker that sends it makes sure of that (lease.PATIENCE).
MARGIN = timedelta(seconds=2)
DISTRUSTED = timedelta(seconds=1)  # the rest while the clock is not trusted


class Reaper(ClockedService):
    name = "reaper"
    batch = 500
    patient = True
    # A lease was ended for a worker that is dead, or the dispatcher sees that one has expired.
    topics: ClassVar[frozenset[str]] = frozenset({WORKERS, LOST})

    def __init__(
        self,
        store: Store,
        *,
        margin: timedelta = MARGIN,
        caution: Caution = LEASES,
        **options: Unpack[ServiceOptions],
    ) -> None:
        super().__init__(store, **options)
        self._margin = margin
        self._caution = caution
        self._after = 0

    async def tick(self) -> timedelta:
        taken = await self._store.maintenance.take_back(
            judged,
            after=self._after,
            margin=self._margin,
            limit=self._batch,
            trust=self._timekeeper.ask(self._caution),
        )
        self._after = taken.last
        if taken.lost:
            self._emit(JobsTakenBack(count=taken.lost, poisoned=taken.poisoned))
        if taken.last:
            return NO_REST
        return DISTRUSTED if taken.distrusted else A_WHILE


def judged(job: LostJob, now: datetime) -> Verdict:
    """Decide about a job that was lost with its worker; it is retried at once, without jitter."""
    reason = "it has ended" if job.has_ended else "its lease ended"
    lost = Lost(worker=job.worker, reason=reason, alone=job.alone, name=job.worker_name)
    return judge(Tried.of(job), lost, now, dice=0.0)

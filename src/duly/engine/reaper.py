"""The reaper: takes jobs back from workers whose lease has expired.

Never because a job runs long: only the lease decides, by the store's clock. Whoever comes back
later with a result finds that its fence is too old.

A clock that was set forward ends every lease at once, for the store and not for those who hold
them. So the reaper asks the timekeeper; until the clock is believed again it only takes what a
worker has let go of, or what is known to have died.
"""

from datetime import datetime, timedelta

from duly.engine.timekeeper import LEASES, Caution, Timekeeper
from duly.events import Emit, JobsTakenBack, ignore_event
from duly.model.outcome import Lost
from duly.policy.verdict import Tried, Verdict, judge
from duly.store.store import Store
from duly.store.values import WORKERS, LostJob

BATCH = 500
# A renewal may be judged just before the expiry and committed just after it: longer than this it
# must not take, and whoever sends it has to see to that.
MARGIN = timedelta(seconds=2)
EVERY = timedelta(seconds=1)
NO_REST = timedelta(0)


class Reaper:
    name = "reaper"
    patient = True
    topics = frozenset({WORKERS})  # whose lease was ended for it is known to be dead

    def __init__(
        self,
        store: Store,
        *,
        emit: Emit = ignore_event,
        batch: int = BATCH,
        margin: timedelta = MARGIN,
        timekeeper: Timekeeper | None = None,
        caution: Caution = LEASES,
    ) -> None:
        self._store = store
        self._emit = emit
        self._batch = batch
        self._margin = margin
        self._timekeeper = timekeeper or Timekeeper(store, emit=emit)
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
    """What becomes of a job that was lost with its worker. No dice: it is tried again at once."""
    reason = "it has ended" if job.has_ended else "its lease ended"
    lost = Lost(worker=job.worker, reason=reason, alone=job.alone, name=job.worker_name)
    return judge(Tried.of(job), lost, now, dice=0.0)

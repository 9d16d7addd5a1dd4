"""Operations of workers: leases, heartbeats, and orders to workers.

A lease belongs to the worker, one row for all its jobs. Each claim has a fencing token, a number
that only rises: it is stored on the jobs, and every write on them must present it.
"""

from collections.abc import Iterable, Sequence
from datetime import timedelta

from duly.model.claimed import Claimed
from duly.model.payload import check_text
from duly.model.queue import Queue
from duly.model.worker import Order, Profile, WorkerInfo, refuse_another_app
from duly.store import rows
from duly.store.database import Ask, Operation, Row
from duly.store.ids import KeptIds
from duly.store.values import Beat

MILLISECOND = 1_000  # in microseconds
# How many jobs are updated at once when their queue becomes fair or stops to be.
MOST_TOLD = 5_000


def enlist(profile: Profile, *, lease: timedelta, now: int, ids: KeptIds) -> Operation[WorkerInfo]:
    """Register a worker; a repeated call finds its own. ``now`` is when the first call was made.

    The moment is part of the number, so that no worker ever gets the number of another: not even
    in a database that was put back to a time at which it did not know the other, which may live
    still, and would renew the lease and claim as if it were this one. Twelve bits tell those apart
    that register in the same millisecond. Together it is less than 2**53, which JSON readers keep.
    """
    yield Ask("lock_registration")
    refuse_another_app(profile, found((yield Ask("living_workers"))))
    [drawn] = yield from ids.draw(1)
    number = now // MILLISECOND % 2**40 << 12 | drawn % 2**12
    ids.all_new((yield register_as(number, profile, lease=lease)), 1)
    return (yield from _registered(number))


def register(number: int, profile: Profile, *, lease: timedelta) -> Operation[WorkerInfo]:
    yield register_as(number, profile, lease=lease)
    return (yield from _registered(number))


def register_as(number: int, profile: Profile, *, lease: timedelta) -> Ask:
    check_text(profile.name, "name")
    values = rows.profile_values(profile)
    return Ask("register_worker", {"id": number, "lease": rows.microseconds(lease), **values})


def _registered(number: int) -> Operation[WorkerInfo]:
    known = yield Ask("list_workers")
    return next(rows.worker(row) for row in known if row[0] == number)


def renew(worker: int, lease: timedelta, *, running: int) -> Operation[Beat | None]:
    asked = {"id": worker, "lease": rows.microseconds(lease), "running": running}
    renewed = yield Ask("renew_lease", asked)
    return (yield from _heard(worker, renewed))


def listen_to(worker: int) -> Operation[Beat | None]:
    told = yield Ask("worker_told", {"id": worker})
    return (yield from _heard(worker, told))


def _heard(worker: int, told: Sequence[tuple[Order, int | None]]) -> Operation[Beat | None]:
    if not told:
        return None
    [(order, slots)] = told
    signals = yield Ask("signals_for", {"worker": worker})
    return Beat(order=order, slots=slots, signals={number: reason for number, _, reason in signals})


def end_lease(worker: int, *, died: bool = False) -> Operation[None]:
    yield Ask("end_lease", {"id": worker, "died": int(died)})


def workers() -> Operation[list[WorkerInfo]]:
    found = yield Ask("list_workers")
    return [rows.worker(row) for row in found]


def found(living: Iterable[Row]) -> list[WorkerInfo]:
    return [rows.worker(row) for row in living]


def tell(worker: str | int, order: Order, *, slots: int | None) -> Operation[int]:
    name, number = (worker, None) if isinstance(worker, str) else (None, worker)
    told = yield Ask("tell_workers", {"name": name, "id": number, "told": order, "slots": slots})
    return len(told)


def held(worker: int) -> Operation[list[Claimed]]:
    found = yield Ask("held_jobs", {"worker": worker})
    return [rows.claimed(row) for row in found]


def set_queue(queue: Queue) -> Operation[bool]:
    """Store a queue's settings; return whether ``fair`` changed and waiting jobs need an update."""
    rate = queue.rate
    was_fair = any(fair for *_, fair, _ in (yield Ask("hold_queue", {"queue": queue.name})))
    yield Ask(
        "set_queue",
        {
            "name": queue.name,
            "paused": int(queue.paused),
            "note": queue.note,
            "concurrency": queue.concurrency,
            "rate_count": rate.count if rate else None,
            "rate_period": rows.microseconds(rate.period) if rate else None,
            "fair": int(queue.fair),
        },
    )
    return was_fair is not queue.fair


def set_fair(queue: Queue, *, after: int) -> Operation[int | None]:
    """Store on the next waiting jobs whether the queue is fair; return the cursor, or None."""
    told = yield Ask(
        "set_fair",
        {"name": queue.name, "fair": int(queue.fair), "after": after, "limit": MOST_TOLD},
    )
    return max(number for (number,) in told) if len(told) == MOST_TOLD else None


def queues() -> Operation[list[Queue]]:
    found = yield Ask("list_queues")
    return [rows.queue(row) for row in found]

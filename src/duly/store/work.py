"""Operations of workers: a lease, claims under it, and what they are told.

A lease belongs to the worker, one row for all its jobs. Each claim has a fence, a number that only
ever rises: it is stored on the jobs and must be shown to write on them.
"""

import json
from collections.abc import Mapping, Sequence
from datetime import timedelta

from duly.model.job import Job
from duly.model.payload import check_text
from duly.model.queue import Queue
from duly.model.worker import WorkerInfo
from duly.store import rows
from duly.store.database import Ask, Operation


def register(
    number: int, name: str, *, queues: Sequence[str], tasks: Sequence[str], lease: timedelta
) -> Operation[WorkerInfo]:
    check_text(name, "name")
    yield Ask(
        "register_worker",
        {
            "id": number,
            "name": name,
            "queues": json.dumps(list(queues)),
            "tasks": json.dumps(list(tasks)),
            "lease": rows.microseconds(lease),
        },
    )
    found = yield Ask("list_workers")
    return next(rows.worker(row) for row in found if row[0] == number)


def renew(worker: int, lease: timedelta) -> Operation[bool]:
    renewed = yield Ask("renew_lease", {"id": worker, "lease": rows.microseconds(lease)})
    return bool(renewed)


def end_lease(worker: int) -> Operation[None]:
    yield Ask("end_lease", {"id": worker})


def workers() -> Operation[list[WorkerInfo]]:
    found = yield Ask("list_workers")
    return [rows.worker(row) for row in found]


def claim(worker: int, *, queue: str, tasks: Sequence[str], limit: int) -> Operation[list[Job]]:
    [(fence,)] = yield Ask("next_fence")
    claimed = yield Ask(
        "claim",
        {"worker": worker, "fence": fence, "queue": queue, "tasks": list(tasks), "limit": limit},
    )
    claimed.sort(key=lambda row: (row[-1], row[0]))  # an update returns its rows in any order
    return [rows.job(row[:-1]) for row in claimed]


def held(worker: int) -> Operation[list[Job]]:
    found = yield Ask("held_jobs", {"worker": worker})
    return [rows.job(row) for row in found]


def signals(worker: int) -> Operation[Mapping[int, str]]:
    found = yield Ask("signals_for", {"worker": worker})
    return {number: reason for number, _, reason in found}


def set_queue(queue: Queue) -> Operation[None]:
    yield Ask("set_queue", {"name": queue.name, "paused": int(queue.paused), "note": queue.note})


def queues() -> Operation[list[Queue]]:
    found = yield Ask("list_queues")
    return [Queue(name=name, paused=bool(paused), note=note) for name, paused, note in found]

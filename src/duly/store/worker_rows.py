"""Between rows and values, for workers and the queues that they listen to."""

import json
from dataclasses import asdict
from datetime import timedelta

from duly.instants import from_us
from duly.model.limit import Rate
from duly.model.queue import Queue
from duly.model.worker import Host, Profile, WorkerInfo
from duly.store.database import Row, Value

_MICROSECOND = timedelta(microseconds=1)


def profile_values(profile: Profile) -> dict[str, Value]:
    return {
        "name": profile.name,
        "queues": json.dumps(list(profile.queues)),
        "tasks": json.dumps(list(profile.tasks)),
        "signatures": json.dumps(dict(profile.signatures)),
        "slots": profile.slots,
        "resources": json.dumps(dict(profile.resources)),
        "isolates": int(profile.isolates),
        "host": json.dumps(asdict(profile.host)),
        "version": profile.version,
        "app": profile.app,
        "holder": profile.holder,
    }


def worker(row: Row) -> WorkerInfo:
    (
        number, name, queues, signatures, slots, resources, isolates, host, version,
        app, holder, started, lease, beat, running, told, told_slots,
    ) = row  # fmt: skip
    return WorkerInfo(
        id=number,
        profile=Profile(
            name=name,
            queues=tuple(json.loads(queues)),
            signatures=json.loads(signatures),
            slots=slots,
            resources=json.loads(resources),
            isolates=bool(isolates),
            host=Host(**json.loads(host)),
            version=version,
            app=app,
            holder=holder,
        ),
        started_at=from_us(started),
        lease_until=from_us(lease),
        beat_at=from_us(beat),
        running=running,
        order=told,
        slots_ordered=told_slots,
    )


def queue(row: Row) -> Queue:
    name, paused, note, concurrency, count, period, fair = row
    return Queue(
        name=name,
        paused=bool(paused),
        note=note,
        concurrency=concurrency,
        rate=rate(count, period),
        fair=bool(fair),
    )


def rate(count: int | None, period: int | None) -> Rate | None:
    return None if count is None or period is None else Rate(count, period * _MICROSECOND)

"""Convert rows to values and back: integers to datetimes, JSON to policies.

The columns come in the order in which the parts ``schedule``, ``fire`` and ``job`` of the ``.sql``
files name them.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from datetime import datetime, timedelta
from functools import lru_cache
from operator import attrgetter
from typing import Any, Final, NamedTuple

import msgspec

from duly.durations import MICROSECOND
from duly.instants import from_us, to_us
from duly.model.columns import reader
from duly.model.event import StoredEvent
from duly.model.fire import StoredFire
from duly.model.job import Attempt, Claimed, JobRequest, Owner, StoredJob
from duly.model.limit import Queue, Rate, limits_as_json, limits_from_json
from duly.model.payload import Json
from duly.model.policies import Policies
from duly.model.schedule import Pause, Plan, StoredSchedule
from duly.model.states import State
from duly.model.terms import Terms
from duly.model.worker import Profile, WorkerInfo
from duly.policy.redaction import hidden_json
from duly.store.database import Row, Value
from duly.store.values import RunTimes

_ENCODER = msgspec.json.Encoder()


class ScheduleColumns(NamedTuple):
    """The columns of the part ``schedule`` in the ``.sql`` files, and the store's time."""

    id: int
    name: str
    task: str
    args: Json
    rule: str
    zone: str | None
    policies: str
    queue: str
    priority: int
    tenant: str
    submitter: str
    title: str
    tags: str
    owner: str
    version: int
    created_at: int
    cursor: int
    next_at: int | None
    settled_until: int | None
    revision: int
    pause: str | None
    runs: int
    awaiting: int | None
    fault: str | None
    zone_data: str
    limits: str | None
    needs: str | None
    terms: str | None
    now: int = 0


def moment(instant: int | None) -> datetime | None:
    return None if instant is None else from_us(instant)


def instant(moment: datetime | None) -> int | None:
    return None if moment is None else to_us(moment)


def microseconds(length: timedelta | None) -> int | None:
    return None if length is None else length // MICROSECOND


def length(microseconds: int | None) -> timedelta | None:
    return None if microseconds is None else microseconds * MICROSECOND


def packed(rows: Iterable[Mapping[str, object]]) -> str:
    """Return many rows as one JSON text: one statement, one parameter, any driver."""
    return _ENCODER.encode(list(rows)).decode()


def schedule(row: ScheduleColumns) -> StoredSchedule:
    return StoredSchedule(
        id=row.id,
        plan=_plan(row),
        created_at=from_us(row.created_at),
        cursor=from_us(row.cursor),
        next_at=moment(row.next_at),
        revision=row.revision,
        pause=read_pause(row.pause),
        runs=row.runs,
        awaiting=row.awaiting,
        fault=row.fault,
        zone_data=row.zone_data,
    )


class StepPosition(NamedTuple):
    """The position of a job in a flow: the step, and the part of the step."""

    flow: int
    step: int
    part: int


class LockedJob(NamedTuple):
    """A job that is locked, to be ended or returned to waiting."""

    id: int
    attempt: int
    worker: int | None
    fence: int
    claimed_at: int | None
    schedule_id: int | None
    task: str
    key: str | None
    limits: str | None
    terms: str | None
    tenant: str
    state: str
    parent: int | None
    step: int | None
    part: int | None

    @property
    def place(self) -> StepPosition | None:
        """Return the job's position in its flow; None if it is not a step."""
        if self.parent is None or self.step is None or self.part is None:
            return None
        return StepPosition(self.parent, self.step, self.part)


def locked_jobs(found: Iterable[Row]) -> list[LockedJob]:
    return [LockedJob(*row) for row in found]


def schedules(found: Iterable[Row]) -> list[ScheduleColumns]:
    return [ScheduleColumns(*row) for row in found]


# The columns of a schedule that are fields of its plan as they are.
_PLAIN: Final = (
    "name", "task", "args", "rule", "zone", "queue", "priority", "tenant", "submitter", "title",
    "version",
)  # fmt: skip
_plain_columns = attrgetter(*_PLAIN)


def _plan(row: ScheduleColumns) -> Plan:
    """Return the plan of a row; an unreadable part is reported only where its timing matters."""
    plain = dict(zip(_PLAIN, _plain_columns(row), strict=True))
    try:
        read: dict[str, object] = {
            "policies": Policies.from_json(row.policies),
            "tags": tuple(json.loads(row.tags)),
            "owner": Owner(row.owner),
            **_taking(row.limits, row.needs, row.terms),
        }
    except Exception as error:  # noqa: BLE001 - a newer version's choices, or somebody's hand
        said = f"this version of duly cannot read it: {error!r:.300}"
        read = {"policies": Policies(), "tags": (), "owner": Owner.API, "unreadable": said}
    return Plan.remembered(**plain, **read)


def plan_values(plan: Plan) -> dict[str, Value]:
    return {
        **_label_values(plan),
        "args": plan.args,
        "name": plan.name,
        "rule": plan.rule,
        "zone": plan.zone,
        "policies": plan.policies.as_json(),
    }


def open_values(plan: Plan) -> dict[str, Value]:
    """Return the values of ``plan_values`` with the secrets in the arguments hidden."""
    return {**plan_values(plan), "args": hidden_json(plan.task, plan.args)}


def policies_over(stored: str, policies: Policies) -> str:
    """Return the policies as text, with stored policies that this version does not know."""
    known = {field.name for field in fields(Policies)}
    try:
        foreign = {key: value for key, value in json.loads(stored).items() if key not in known}
    except (ValueError, AttributeError):
        foreign = {}
    return json.dumps({**json.loads(policies.as_json()), **foreign}, sort_keys=True)


def packed_calls(calls: Iterable[JobRequest], numbers: Iterable[int]) -> str:
    """Return calls and their numbers as JSON text for ``enqueue``: an object for each run.

    A run is calls that follow each other, differ in their arguments only, and have consecutive
    numbers: a bulk of one task is one object with a list of arguments. With this and arguments
    that are bound once, a job takes 7 µs of CPU on PostgreSQL, client and server, and 5 on SQLite;
    an object for each job took 30 and 38.
    """
    runs: list[dict[str, object]] = []
    args: list[str] = []
    pattern, following = None, 0
    for call, number in zip(calls, numbers, strict=True):
        like = call.like or call
        if like is not pattern or number != following:
            args = []
            runs.append({**_without_nulls(_shape_values(like)), "id": number, "args": args})
            pattern = like
        args.append(call.args)
        following = number + 1
    return packed(runs)


def one_call(call: JobRequest, number: int) -> dict[str, Value]:
    """Return the parameters of ``enqueue_one``."""
    return {**_shape_values(call), "args": call.args, "id": number, "request": number}


def call_values(call: JobRequest, number: int, request: int) -> dict[str, Value]:
    """Return a call as a row of JSON."""
    return _without_nulls({**one_call(call, number), "request": request})


def _without_nulls(values: Mapping[str, Value]) -> dict[str, Value]:
    """Leave out nulls: a missing field is null too, and PostgreSQL reads it in half the time."""
    return {name: value for name, value in values.items() if value is not None}


def _shape_values(call: JobRequest) -> dict[str, Value]:
    """Return what calls with the same pattern have in common: all but the arguments."""
    at = call.run_after
    delay = at if isinstance(at, timedelta) else timedelta(0)
    return {
        **_label_values(call),
        "key": call.key,
        "run_at": to_us(at) if isinstance(at, datetime) else None,
        "delay": microseconds(delay),
        "start_within": microseconds(call.start_within) if call.late != "run" else None,
        "late": call.late,
        "retry": call.retry,
        "parent": call.parent,
    }


def _label_values(label: Plan | JobRequest) -> dict[str, Value]:
    return {
        "task": label.task,
        "queue": label.queue,
        "priority": label.priority,
        "tenant": label.tenant,
        "submitter": label.submitter,
        "title": label.title,
        "tags": _tags(label.tags),
        "owner": label.owner.value,
        "version": label.version,
        "limits": limits_as_json(label.limits) if label.limits else None,
        "needs": json.dumps(dict(label.needs), sort_keys=True) if label.needs else None,
        "terms": label.terms.as_json(),
    }


@lru_cache(maxsize=1024)
def _tags(tags: tuple[str, ...]) -> str:
    return json.dumps(tags, ensure_ascii=False)


def _taking(limits: str | None, needs: str | None, terms: str | None) -> dict[str, Any]:
    """Return the limits, resource needs and terms of a job or schedule."""
    return {
        "limits": limits_from_json(limits) if limits else (),
        "needs": json.loads(needs) if needs else {},
        "terms": Terms.from_json(terms),
    }


_PAUSE = "since until by note catch_up"
_pause = reader(Pause, _PAUSE)


def read_pause(text: str | None) -> Pause | None:
    if text is None:
        return None
    found = json.loads(text)
    return _pause(found[name] for name in _PAUSE.split())


def pause_text(pause: Pause | None) -> str | None:
    if pause is None:
        return None
    moments = {"since": to_us(pause.since), "until": instant(pause.until)}
    return json.dumps(asdict(pause) | moments, ensure_ascii=False)


fire: Final = reader(StoredFire)
job: Final = reader(
    StoredJob,
    "id task args queue priority tenant submitter title tags owner version key state created_at "
    "due_at ready_at deadline late retry attempt crashes worker fence claimed_at schedule_id "
    "fire_id reason limits needs terms parent step part waits waits_for ended_at result error",
)
attempt: Final = reader(Attempt)


def claimed(row: Row) -> Claimed:
    return Claimed(*row)


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


_PROFILE = "name queues signatures slots resources isolates host version app holder"
_profile = reader(Profile, _PROFILE)


def worker(row: Row) -> WorkerInfo:
    """Return the worker of a row: its number, its profile, its lease, and its orders."""
    number, *profile, started, lease, beat, running, order, slots = row
    return WorkerInfo(
        id=number,
        profile=_profile(profile),
        started_at=from_us(started),
        lease_until=from_us(lease),
        beat_at=from_us(beat),
        running=running,
        order=order,
        slots_ordered=slots,
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
    return None if count is None or period is None else Rate(count, period * MICROSECOND)


# Names have only letters, digits, dots, _ and -: nothing of them is behind this.
LAST = "\x7f"


class EventCursor(NamedTuple):
    """A cursor: the event after which to continue."""

    at: int
    id: int


BEGINNING: Final = EventCursor(-1, 0)


def event_cursor(event: StoredEvent) -> EventCursor:
    return EventCursor(to_us(event.at), event.id)


event: Final = reader(StoredEvent)


def span(pattern: str) -> dict[str, Value]:
    """Return the first and the last event name that a pattern matches."""
    if pattern.endswith("*"):
        return {"low": pattern[:-1], "high": pattern[:-1] + LAST}
    return {"low": pattern, "high": pattern}


@dataclass(frozen=True, slots=True)
class JobEnding:
    state: State
    reason: str
    crashes: int = 0
    result: str | None = None
    error: str | None = None
    keep: int | None = None  # how long the result, or the failed job, is kept, in microseconds


def run_times(found: Iterable[Row]) -> dict[int, RunTimes]:
    """Return when jobs ran, by job id."""
    make = reader(RunTimes)
    return {number: make(times) for number, *times in found}

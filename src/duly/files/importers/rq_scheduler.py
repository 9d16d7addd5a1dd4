"""Import from rq-scheduler: the keys that it keeps in Redis.

A job's function, arguments and ``meta`` are pickles, and unpickling may run any code. So they are
not unpickled: ``plain_value`` reads the opcodes of a pickle that is made of plain values, and
refuses any other. A job with other arguments is imported paused, and a note says why.
"""

import pickletools
import zlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from duly.files.importers.collector import (
    ImportCollector,
    Imported,
    allows_overlap,
    title_of,
    zone_asked_for,
)
from duly.rules.rule_text import checked_zone

SCHEDULED: Final = "rq:scheduler:scheduled_jobs"
JOB: Final = "rq:job:"
MOST_BYTES: Final = 1_000_000  # of one pickle
_CRON_WITH_YEAR, _CRON_WITH_SECONDS = 6, 7  # fields; rq-scheduler's crontab has the year last

_CONSTANTS: Final = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
_IGNORED: Final = frozenset({"PROTO", "FRAME", "STOP"})
_LITERALS: Final = frozenset(
    {"BININT", "BININT1", "BININT2", "LONG1", "LONG4", "BINFLOAT"}
    | {"SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8"}
)
_TUPLES: Final = {"EMPTY_TUPLE": 0, "TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}


@dataclass(frozen=True, slots=True)
class ScheduledJob:
    """A job in the sorted set, and its hash."""

    id: str
    at: float  # seconds since 1970
    fields: Mapping[str, bytes]

    def text(self, name: str) -> str:
        return self.fields.get(name, b"").decode(errors="replace")


def from_redis(
    jobs: Sequence[ScheduledJob], *, zone: str | None = None, machine_zone: str | None = None
) -> Imported:
    """Read scheduled jobs. ``zone`` is the scheduler's, in which its cron strings are."""
    basket, known = ImportCollector(), checked_zone(zone)
    for job in jobs:
        with basket.reading(f"job {job.id}"):
            _add(basket, job, known, machine_zone)
    return basket.imported_tasks(overlap=allows_overlap("rq-scheduler enqueues a job", "its"))


def _add(
    basket: ImportCollector, job: ScheduledJob, zone: str | None, machine_zone: str | None
) -> None:
    if not job.fields:
        basket.note(f"job {job.id}", "its job is gone from Redis; it is left out")
        return
    called, args, kwargs, problems = _call(job)
    meta = plain_value(job.fields["meta"]) if job.fields.get("meta") else {}
    if not isinstance(meta, Mapping):
        raise TypeError("its meta is not a dict")
    rule, needed = _timing(job, meta, zone, machine_zone)
    counted = meta.get("repeat") is not None and (meta.get("interval") or meta.get("cron_string"))
    basket.add_call(
        f"job {job.id}",
        name=called.rpartition(".")[2] or job.id,
        rule=rule,
        zone=needed,
        task=called,
        args=args,
        kwargs=kwargs,
        problems=problems,
        lost=_lost(job, meta),
        title=title_of(job.text("description")),
        queue=job.text("origin") or None,
        priority="high" if job.text("enqueue_at_front") == "1" else None,
        max_runs=max(int(meta["repeat"]), 1) if counted else None,
    )


def _timing(
    job: ScheduledJob, meta: Mapping[Any, Any], zone: str | None, machine_zone: str | None
) -> tuple[str, str | None]:
    """Return the rule of a job, and the zone that the rule needs."""
    start = datetime.fromtimestamp(job.at, UTC).isoformat()
    if meta.get("interval"):
        return f"every {int(meta['interval'])}s from {start}", None
    if not meta.get("cron_string"):
        return start, None
    rule = _cron(str(meta["cron_string"]))
    if zone is None:
        raise zone_asked_for("a cron string of rq-scheduler", machine_zone)
    return rule, zone


def _call(job: ScheduledJob) -> tuple[str, list[object], dict[str, object], list[str]]:
    """Return the name of the function, its arguments, and what is wrong with them."""
    unpacked = job.fields.get("data", b"")
    with suppress(zlib.error):  # RQ reads data that is not compressed, too
        unpacked = zlib.decompressobj().decompress(unpacked, MOST_BYTES + 1)
    try:
        found = plain_value(unpacked)
    except ValueError as error:
        name = job.text("description").partition("(")[0]
        if not name:
            raise
        return name, [], {}, [f"{error}: write args = {{ name = … }}"]
    name, instance, args, kwargs = found  # a ValueError if it is not four
    if instance is not None:
        raise ValueError(f"{name} is a method of an object; write a task that makes the object")
    return str(name), list(args), dict(kwargs), []


def _cron(text: str) -> str:
    """Return the cron line without the year, which is the last of six or seven fields."""
    fields = text.split()
    if len(fields) in (_CRON_WITH_YEAR, _CRON_WITH_SECONDS) and fields.pop() != "*":
        raise ValueError(f'"{text}" names a year: choose a rule')
    return " ".join(fields)


def _lost(job: ScheduledJob, meta: Mapping[Any, Any]) -> Sequence[str]:
    known = {"interval", "repeat", "cron_string", "use_local_timezone", "queue_class_name"}
    lost = [f"meta {name}" for name in meta if name not in known]
    lost += [
        f"{name}={job.text(name)}"
        for name in ("timeout", "result_ttl", "success_callback_name", "failure_callback_name")
        if job.text(name) not in ("", "None", "-1")
    ]
    hint = "write timeout=, keep_result=, on_success= and on_failure= at its @duly.task"
    return [f"{', '.join(map(str, lost))} cannot be carried: {hint}"] if lost else []


def plain_value(data: bytes) -> Any:  # noqa: ANN401 - a value of JSON, or a tuple
    """Return the value of a pickle of plain values; raise ``ValueError`` for any other.

    Nothing is imported or called: opcodes that could do that are not in the list.
    """
    if len(data) > MOST_BYTES:
        raise ValueError(f"its pickle has more than {MOST_BYTES:,} bytes")
    built = _PlainStack()
    try:
        for opcode, argument, _ in pickletools.genops(data):
            built.take(opcode.name, argument)
        [value] = built.stack
    except NotPlain:
        raise
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise ValueError("its pickle is damaged") from error
    return value


class NotPlain(ValueError):
    """A pickle of objects that only running code can make."""


@dataclass(slots=True)
class _PlainStack:
    """The stack that the opcodes of a pickle build their value on."""

    stack: list[Any] = field(default_factory=list)
    marks: list[int] = field(default_factory=list)
    memo: dict[int, Any] = field(default_factory=dict)

    def take(self, opcode: str, argument: Any) -> None:  # noqa: ANN401 - of the opcode
        if opcode in _LITERALS:
            self.stack.append(argument)
        elif opcode in _CONSTANTS:
            self.stack.append(_CONSTANTS[opcode])
        elif opcode in _TUPLES:
            self.stack.append(tuple(self._last(_TUPLES[opcode])))
        elif opcode in ("MEMOIZE", "BINPUT", "LONG_BINPUT"):
            self.memo[len(self.memo) if argument is None else argument] = self.stack[-1]
        elif opcode in ("BINGET", "LONG_BINGET"):
            self.stack.append(self.memo[argument])
        elif opcode not in _IGNORED:
            self._build(opcode)

    def _build(self, opcode: str) -> None:
        match opcode:
            case "EMPTY_DICT":
                self.stack.append({})
            case "EMPTY_LIST":
                self.stack.append([])
            case "MARK":
                self.marks.append(len(self.stack))
            case "TUPLE":
                self.stack.append(tuple(self._since_mark()))
            case "APPEND" | "APPENDS":
                items = self._last(1) if opcode == "APPEND" else self._since_mark()
                self.stack[-1].extend(items)
            case "SETITEM" | "SETITEMS":
                items = self._last(2) if opcode == "SETITEM" else self._since_mark()
                self.stack[-1].update(zip(items[::2], items[1::2], strict=True))
            case _:
                raise NotPlain(
                    "its arguments are objects of Python, which only running code can make"
                )

    def _since_mark(self) -> list[Any]:
        return self._last(len(self.stack) - self.marks.pop())

    def _last(self, count: int) -> list[Any]:
        if not 0 <= count <= len(self.stack):
            raise LookupError
        since = len(self.stack) - count
        items = self.stack[since:]
        del self.stack[since:]
        return items

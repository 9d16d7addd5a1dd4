"""Reading what is shown while it happens: what happened, how fast things go, how full queues are.

Somebody may look once a second: each answer is bounded, and found through an index.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from duly.instants import from_us, to_us
from duly.model.states import State
from duly.store import rows
from duly.store.database import Ask, Operation, Row
from duly.store.protocol import LENGTHS, MOST_COUNTED, Depth, EndedStats, Happening

EVER = 2**63 - 1
MOST_LOOKED_AT = MOST_COUNTED + 1
# What is claimed first has mostly waited longest; a few more are looked at for those that have not.
MOST_OLDEST = 1_000


def happened(since: datetime, until: datetime | None, limit: int) -> Operation[list[Happening]]:
    values = {**_between(since, until), "limit": limit}
    return [_happening(row) for row in reversed((yield Ask("happened", values)))]


def count_happened(since: datetime, until: datetime | None) -> Operation[int]:
    [(count,)] = yield Ask("count_happened", _between(since, until))
    return int(count)


def minutes(since: datetime, until: datetime, step: timedelta) -> Operation[list[EndedStats]]:
    width = rows.microseconds(step) or 1
    found = yield Ask("ended_by_step", {**_between(since, until), "step": width})
    counters: dict[tuple[int, str], _Counter] = {}
    for place, queue, state, *lengths, count in found:
        counters.setdefault((place, queue), _Counter()).add(state, lengths, count)
    return [
        counter.as_ended(from_us(place * width), queue)
        for (place, queue), counter in sorted(counters.items())
    ]


def depths() -> Operation[list[Depth]]:
    most = {"most": MOST_LOOKED_AT}
    ready = yield Ask("count_ready_by_queue", {**most, "oldest": MOST_OLDEST})
    running = yield Ask("count_running_by_queue", most)
    scheduled = yield Ask("count_scheduled_by_queue", most)
    blocked = yield Ask("count_blocked_by_queue", most)
    found: dict[str, Depth] = {}
    for queue, count, oldest in ready:
        found[queue] = Depth(queue=queue, ready=count, oldest_ready_at=rows.moment(oldest))
    for queue, count in running:
        found[queue] = replace(_of(found, queue), running=count)
    for queue, count in scheduled:
        found[queue] = replace(_of(found, queue), scheduled=count)
    for queue, count, *_ in blocked:
        if count:
            found[queue] = replace(_of(found, queue), blocked=count)
    whole = _all_seen(count for _, count in scheduled) and all(
        _all_seen(row[place] for row in blocked) for place in (2, 3)
    )
    return [replace(found[queue], whole=whole) for queue in sorted(found)]


def _between(since: datetime, until: datetime | None) -> dict[str, int]:
    return {"since": to_us(since), "until": EVER if until is None else to_us(until)}


def _happening(row: Row) -> Happening:
    at, kind, number, job, schedule, task, title, queue, tenant, state, reason, due = row
    return Happening(
        at=from_us(at),
        kind=kind,
        number=number,
        job_id=job,
        schedule=schedule or "",
        task=task or "",
        title=title or "",
        queue=queue or "",
        tenant=tenant or "",
        state=state,
        reason=reason,
        due_at=from_us(due),
    )


def _no_lengths() -> list[int]:
    return [0] * (len(LENGTHS) + 1)


@dataclass(slots=True)
class _Counter:
    """What ended in a queue within a stretch, as its rows come in."""

    states: dict[str, int] = field(default_factory=dict)
    waiting: list[int] = field(default_factory=_no_lengths)
    running: list[int] = field(default_factory=_no_lengths)
    lateness: list[int] = field(default_factory=_no_lengths)

    def add(self, state: str, lengths: Sequence[int | None], count: int) -> None:
        self.states[state] = self.states.get(state, 0) + count
        histograms = (self.waiting, self.running, self.lateness)
        for counts, place in zip(histograms, lengths, strict=True):
            if place is not None:
                counts[min(max(place, 0), len(LENGTHS))] += count

    def as_ended(self, start: datetime, queue: str) -> EndedStats:
        succeeded = self.states.get(State.SUCCEEDED, 0)
        failed = self.states.get(State.FAILED, 0)
        return EndedStats(
            start=start,
            queue=queue,
            succeeded=succeeded,
            failed=failed,
            others=sum(self.states.values()) - succeeded - failed,
            waiting=tuple(self.waiting),
            running=tuple(self.running),
            lateness=tuple(self.lateness),
        )


def _of(found: dict[str, Depth], queue: str) -> Depth:
    return found.get(queue) or Depth(queue=queue)


def _all_seen(counts: Iterable[int]) -> bool:
    return sum(counts) <= MOST_COUNTED

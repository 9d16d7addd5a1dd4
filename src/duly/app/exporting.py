"""What is in a store, in the words of a file."""

from collections.abc import Sequence
from typing import Final

from duly.declare.keeping import entry_of
from duly.declare.reading import read
from duly.declare.sheet import Entry, LimitEntry, QueueEntry, Sheet
from duly.declare.writing import write
from duly.errors import DulyError
from duly.model.job import Owner
from duly.model.queue import Queue
from duly.model.schedule import Schedule
from duly.store.protocol import LaneRule, Store

PAGE: Final = 1_000


async def exported(store: Store) -> tuple[Sheet, Sequence[str]]:
    """What is there and is not code's, as a file would say it; and what no file can say."""
    schedules, notes = await _exported_schedules(store)
    standing = await store.schedules.standing([])
    queues = {
        queue.name: queue_entry(queue)
        for queue in standing.queues.values()
        if queue.paused or not queue.plain
    }
    limits = {rule.name: limit_entry(rule) for rule in standing.limits.values() if any(rule[1:])}
    return Sheet(schedules=schedules, queues=queues, limits=limits), notes


def queue_entry(queue: Queue) -> QueueEntry:
    return QueueEntry(
        name=queue.name,
        paused=queue.paused,
        note=queue.note,
        concurrency=queue.concurrency,
        rate=str(queue.rate) if queue.rate else None,
        fair=queue.fair,
    )


def limit_entry(rule: LaneRule) -> LimitEntry:
    rate = str(rule.rate) if rule.rate else None
    return LimitEntry(name=rule.name, concurrency=rule.concurrency, rate=rate)


async def _exported_schedules(store: Store) -> tuple[dict[str, Entry], list[str]]:
    entries: dict[str, Entry] = {}
    notes: list[str] = []
    after = ""
    while page := await store.schedules.page(after=after, limit=PAGE):
        after = page[-1].plan.name
        for schedule in page:
            if schedule.plan.owner is Owner.CODE:
                continue
            name = schedule.plan.name
            try:
                entry = entry_of(schedule)
                read(write(Sheet(schedules={name: entry})))
            except DulyError as error:
                notes.append(f"{name}: {error}; it is left out")
                continue
            entries[name] = entry
            notes += [f"{name}: {lost}" for lost in _lost(schedule)]
    return entries, notes


def _lost(schedule: Schedule) -> list[str]:
    """What it has that a file has no word for."""
    lost = []
    if schedule.plan.tenant:
        lost.append(f'its tenant "{schedule.plan.tenant}" is not carried')
    if schedule.pause and schedule.pause.until:
        lost.append(f"it is paused until {schedule.pause.until}; a file says only that it is")
    if schedule.pause and schedule.pause.catch_up:
        lost.append("it catches up after its pause; a file does not say so")
    return lost

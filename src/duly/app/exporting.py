"""What is in a store, in the words of a file."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Final

from duly.declare.keeping import attempts_of, entry_of
from duly.declare.reading import read
from duly.declare.sheet import Entry, LimitEntry, QueueEntry, Sheet
from duly.declare.writing import write
from duly.errors import DulyError
from duly.model.job import Owner
from duly.model.queue import Queue
from duly.model.schedule import Schedule
from duly.store.protocol import LaneRule, Standing, Store

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


def live_sheet(standing: Standing, sheets: Collection[Sheet]) -> Sheet:
    """What is there of all that the sheets name."""
    queues = {name for sheet in sheets for name in sheet.queues} & {*standing.queues}
    limits = {name for sheet in sheets for name in sheet.limits} & {*standing.limits}
    return Sheet(
        schedules={name: _live_entry(found) for name, found in standing.schedules.items()},
        queues={name: queue_entry(standing.queues[name]) for name in queues},
        limits={
            name: limit_entry(rule)
            for name, rule in standing.limits.items()
            if name in limits and any(rule[1:])
        },
    )


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


def _live_entry(schedule: Schedule) -> Entry:
    return replace(entry_of(schedule), attempts=attempts_of(schedule.plan))


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

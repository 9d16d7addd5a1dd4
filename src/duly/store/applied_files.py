"""Apply a file of definitions to the store in one transaction: all of it, or nothing.

The steps were planned on the stored state. So each step carries the state that it has seen, and is
refused if that was changed meanwhile. All steps are refused if the file was applied meanwhile.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from duly.errors import NotFound, ScheduleExists, WrongState
from duly.instants import EPOCH
from duly.model.limit import Queue
from duly.model.payload import check_text
from duly.model.schedule import Pause, StoredSchedule
from duly.store import limits, rows, schedule_changes, work
from duly.store.database import Ask, Operation
from duly.store.schedule_changes import lock, note
from duly.store.transactions import Editor
from duly.store.values import LimitRule, LimitStep, QueueStep, ScheduleStep, Step, StoredDefinitions

AGAIN = "plan again"


@dataclass(frozen=True, slots=True)
class Application:
    """A file to apply; its number identifies a repeated call."""

    file: str
    number: int
    expected: str | None
    record: str
    steps: Sequence[Step]

    @property
    def fairness_changed(self) -> list[Queue]:
        """Return the queues whose ``fair`` changes, so that their waiting jobs must be updated."""
        return [
            step.queue
            for step in self.steps
            if isinstance(step, QueueStep)
            and step.queue.fair is not (step.seen is not None and step.seen.fair)
        ]


def applied(file: str) -> Operation[str | None]:
    """Return the text of the file that was last applied under this name."""
    found = yield Ask("applied_sheet", {"file": file})
    return found[0][0] if found else None


def standing(names: Sequence[str]) -> Operation[StoredDefinitions]:
    """Return the schedules of these names, and all queues and limits that were set."""
    found = rows.schedules((yield Ask("named_schedules", {"names": list(names)})))
    queues = yield from work.queues()
    rules = yield from _rules()
    return StoredDefinitions(
        schedules={row.name: rows.schedule(row) for row in found},
        queues={queue.name: queue for queue in queues},
        limits={rule.name: rule for rule in rules},
    )


def apply(wanted: Application, editor: Editor) -> Operation[None]:
    check_text(wanted.file, "file")
    [(sheet, number)] = yield Ask("hold_applied", {"file": wanted.file})
    if number == wanted.number:
        return  # a repeated call: it was written, and the answer was lost
    if sheet != wanted.expected:
        raise WrongState(f"somebody applied {wanted.file} in the meantime: {AGAIN}")
    writing = _FileWriter(editor)
    # Always in the same order, so that two transactions that apply files cannot deadlock.
    for step in sorted(wanted.steps, key=_place):
        match step:
            case ScheduleStep():
                yield from writing.schedule(step)
            case QueueStep():
                yield from _queue(step)
            case LimitStep():
                yield from _limit(step)
    yield Ask(
        "keep_applied",
        {"file": wanted.file, "sheet": wanted.record, "number": wanted.number, "who": editor.who},
    )


def _place(step: Step) -> tuple[int, str]:
    match step:
        case ScheduleStep():
            return 0, step.name
        case QueueStep():
            return 1, step.queue.name
        case LimitStep():
            return 2, step.rule.name


@dataclass(frozen=True, slots=True)
class _FileWriter:
    editor: Editor

    def schedule(self, step: ScheduleStep) -> Operation[None]:
        if step.seen is None:
            yield from self._add(step)
        else:
            yield from self._change(step, step.seen)
        if step.plan is None or step.paused is None:
            return
        if step.paused:
            wanted = Pause(since=EPOCH, by=self.editor.who, note=step.note)
            yield from schedule_changes.pause(step.name, wanted, self.editor)
        else:
            yield from schedule_changes.resume(step.name, self.editor)

    def _add(self, step: ScheduleStep) -> Operation[None]:
        plans = [step.plan] if step.plan else []
        try:
            added = yield from schedule_changes.add(
                plans, list((yield from self.editor.ids.draw(len(plans))))
            )
        except ScheduleExists:
            raise _changed("schedule", step.name) from None
        for schedule in added:
            yield from note(schedule, self.editor.who, "added")

    def _change(self, step: ScheduleStep, seen: StoredSchedule) -> Operation[None]:
        try:
            _, there, _ = yield from lock(step.name, self.editor)
        except NotFound:
            raise _changed("schedule", step.name) from None
        if _said(there) != _said(seen):
            raise _changed("schedule", step.name)
        plan = step.plan
        if plan is None:
            yield from schedule_changes.remove(step.name, self.editor)
        elif rows.plan_values(plan) != rows.plan_values(there.plan):
            yield from schedule_changes.edit(step.name, lambda _: plan, self.editor)


def _said(schedule: StoredSchedule) -> tuple[object, ...]:
    """Return the properties of a schedule that people and files set, and not the clock."""
    return schedule.id, rows.plan_values(schedule.plan), schedule.pause


def _queue(step: QueueStep) -> Operation[None]:
    name = step.queue.name
    yield Ask("hold_queue", {"queue": name})
    there = {queue.name: queue for queue in (yield from work.queues())}
    if there.get(name) != step.seen:
        raise _changed("queue", name)
    yield from work.set_queue(step.queue)


def _limit(step: LimitStep) -> Operation[None]:
    name, concurrency, rate = step.rule
    there = {rule.name: rule for rule in (yield from _rules())}
    if there.get(name) != step.seen:
        raise _changed("limit", name)
    if step.dropped:
        yield from limits.drop_rule(name)
    else:
        yield from limits.set_rule(name, concurrency, rate)


def _rules() -> Operation[list[LimitRule]]:
    found = yield Ask("list_limit_rules")
    return [
        LimitRule(name, concurrency, rows.rate(count, period))
        for name, concurrency, count, period in found
    ]


def _changed(kind: str, name: str) -> WrongState:
    return WrongState(f'somebody changed {kind} "{name}" in the meantime: {AGAIN}')

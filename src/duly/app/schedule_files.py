"""Schedule files: plan the changes that a file makes to a store, and apply them.

A draft records the state it was planned on; the store refuses it if that state has changed. Options
that a file leaves to its tasks (queue, retry, limits, …) are filled in from the app.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache, partial
from typing import Annotated, Any, Final, Literal

from msgspec import Meta

from duly.app.calls_by_name import started
from duly.app.plans import reaction_call
from duly.errors import DulyError, InvalidValue, SignatureChanged
from duly.files.comparison import FieldDifference, FilePlan, PlannedChange, plan
from duly.files.entry_plans import (
    DECIDED,
    Decided,
    Record,
    attempts_of,
    decided_of,
    entry_of,
    file_part,
    plan_of,
    read_record,
    set_by_file,
    write_record,
)
from duly.files.field_readers import SCHEDULE
from duly.files.file_text import read, write
from duly.files.schedule_file import (
    KINDS,
    LimitEntry,
    QueueEntry,
    ScheduleEntry,
    ScheduleFile,
    table,
)
from duly.model.job import JobRequest, Owner
from duly.model.limit import Queue, Rate
from duly.model.payload import decode
from duly.model.policies import Policies
from duly.model.schedule import Plan, StoredSchedule
from duly.model.schedule_fields import SCHEDULE_FIELDS
from duly.registry.definition import Definition
from duly.registry.registry import Registry
from duly.store.store import Store
from duly.store.values import LimitRule, LimitStep, QueueStep, ScheduleStep, Step, StoredDefinitions
from duly.views import filled as filled_view

_WHAT_RUNS: Final = frozenset((*KINDS, "args", "cwd", "env", "stdin"))
_LABEL: Final = tuple(one.name for one in SCHEDULE_FIELDS if not one.path)
_OF_THE_TASK: Final = ("task", "args", "version", "limits", "needs")
_OF_THE_CALL: Final = ("args", "queue", "priority", "title", "limits", "needs", "terms")
_POLICIES: Final = tuple(field.name for field in fields(Policies) if field.name in SCHEDULE)


@dataclass(frozen=True, slots=True, kw_only=True)
class DifferenceView:
    """A field that is, or becomes, another; as TOML, without secrets: build logs keep plans."""

    field: str
    old: str | None
    new: str | None

    @classmethod
    def of(cls, each: FieldDifference) -> "DifferenceView":
        old, new = each.shown
        return cls(
            field=each.field,
            old=None if each.old is None else old,
            new=None if each.new is None else new,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeView:
    """The planned change of one entry."""

    kind: Literal["schedule", "queue", "limit"]
    name: str
    action: str
    owner: str | None
    differences: list[DifferenceView]
    drift: Annotated[list[DifferenceView], Meta(description="Set by a person, and kept.")]

    @classmethod
    def of(cls, change: PlannedChange) -> "ChangeView":
        return filled_view(
            cls,
            change,
            owner=change.owner or None,
            differences=[DifferenceView.of(each) for each in change.differences],
            drift=[DifferenceView.of(each) for each in change.drift],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanView:
    """The changes that applying a file would make."""

    file: str
    counts: dict[str, int]
    work: Annotated[bool, Meta(description="Whether there are changes to apply.")]
    drift: bool
    changes: list[ChangeView]


@dataclass(frozen=True, slots=True, kw_only=True)
class FileDraft:
    """The changes that applying a file would make, and the state they were planned on."""

    file: str  # the name under which it is applied
    sheet: ScheduleFile
    plan: FilePlan
    expected: str | None  # the record of the last application
    standing: StoredDefinitions
    applied: Record | None = None  # the same, understood
    taken_back: int = 0  # the number of edits by others that are reverted

    @property
    def as_view(self) -> PlanView:
        return PlanView(
            file=self.file,
            counts=dict(self.plan.counts),
            work=not self.plan.is_empty,
            drift=self.plan.has_drift,
            changes=[ChangeView.of(change) for change in self.plan.changes],
        )

    @property
    def is_written(self) -> bool:
        """Return whether the file is applied already: no changes to make and the same record."""
        if self.expected is None or not self.plan.is_empty:
            return False
        return file_part(self.expected) == write(self.plan.record)

    def record(self, steps: Iterable[Step]) -> str:
        """Return the record to store once the steps are done."""
        made = {
            step.name: step.plan
            for step in steps
            if isinstance(step, ScheduleStep) and step.plan is not None
        }
        decided = {name: self._decided(name, made) for name in self.plan.record.schedules}
        return write_record(Record(self.plan.record, decided))

    def needing_an_app(self) -> list[str]:
        """Return the entries whose task must provide defaults and check the arguments."""
        return [
            change.name
            for change in self.plan.changes
            if change.kind == "schedule"
            and change.action in ("add", "change")
            and self.sheet.schedules[change.name].kind == "task"
            and self.sheet.schedules[change.name].task not in built_in()
            and (
                change.action == "add" or _asks_the_task(change, self.sheet.schedules[change.name])
            )
        ]

    def steps(self, tasks: Registry | None = None) -> list[Step]:
        """Return the store operations to do; ``tasks`` is for entries that need an app."""
        found: list[Step] = []
        for change in self.plan.changes:
            if not change.is_work:
                continue
            match change.kind:
                case "schedule":
                    found.append(self._schedule(change, tasks))
                case "queue":
                    queue = Queue(name=change.name)
                    if isinstance(change.entry, QueueEntry):
                        queue = _queue(change.entry)
                    found.append(QueueStep(seen=self.standing.queues.get(change.name), queue=queue))
                case "limit":
                    found.append(self._limit(change))
        return found

    def _decided(self, name: str, made: Mapping[str, Plan]) -> Decided:
        """Return the values the file leaves open, as written now or as before a person's edit."""
        known = {} if self.applied is None else self.applied.applied_as(name)
        seen = self.standing.schedules.get(name)
        plan = made.get(name) or (None if seen is None else seen.plan)
        now = known if plan is None else decided_of(plan)
        drifted = {each.field for change in self._changes(name) for each in change.drift}
        kept = drifted if name in made else {*known}
        said = set_by_file(self.plan.record.schedules[name])
        return {
            word: known[word] if word in kept and word in known else found
            for word, found in now.items()
            if word not in said
        }

    def _changes(self, name: str) -> list[PlannedChange]:
        changes = self.plan.changes
        return [change for change in changes if (change.kind, change.name) == ("schedule", name)]

    def _schedule(self, change: PlannedChange, tasks: Registry | None) -> ScheduleStep:
        name, seen = change.name, self.standing.schedules.get(change.name)
        if change.action == "remove":
            return ScheduleStep(name=name, seen=seen, plan=None)
        wanted = self.sheet.schedules[name]
        paused: bool | None = True if wanted.paused else None
        if seen is None:
            made = filled(wanted, tasks)
        else:
            made = _merged(seen.plan, wanted, change, tasks)
            paused = wanted.paused if _changed(change) & {"paused", "note"} else None
        return ScheduleStep(name=name, seen=seen, plan=made, paused=paused, note=wanted.note)

    def _limit(self, change: PlannedChange) -> LimitStep:
        seen, entry = self.standing.limits.get(change.name), change.entry
        if isinstance(entry, LimitEntry):
            rate = Rate.parse(entry.rate) if entry.rate else None
            return LimitStep(seen=seen, rule=LimitRule(entry.name, entry.concurrency, rate))
        return LimitStep(seen=seen, rule=LimitRule(change.name, None, None), dropped=True)


async def draft(
    store: Store, sheet: ScheduleFile, *, file: str, prune: bool = False, take_back: bool = False
) -> FileDraft:
    expected = await store.schedules.applied(file)
    applied = None if expected is None else _applied(expected, file)
    sheets = [sheet, applied.sheet] if applied else [sheet]
    standing = await store.schedules.standing([name for one in sheets for name in one.schedules])
    live = live_sheet(standing, sheets)
    owners = {name: str(found.plan.owner) for name, found in standing.schedules.items()}
    planned = partial(
        plan,
        sheet,
        applied.sheet if applied else None,
        live,
        owners=owners,
        decided=applied.decided if applied else None,
        prune=prune,
    )
    made, left = planned(take_back=take_back), planned()
    return FileDraft(
        file=file,
        sheet=sheet.resolved(),
        plan=made,
        expected=expected,
        standing=standing,
        applied=applied,
        taken_back=left.counts["drifted"] - made.counts["drifted"],
    )


async def apply(store: Store, wanted: FileDraft, *, tasks: Registry | None = None) -> None:
    """Apply the draft in one transaction; ``WrongState`` if the store has changed since."""
    steps = wanted.steps(tasks)
    await store.schedules.apply(
        wanted.file,
        expected=wanted.expected,
        record=wanted.record(steps),
        steps=steps,
    )


def filled(entry: ScheduleEntry, tasks: Registry | None) -> Plan:
    """Return the plan of an entry, with the task's defaults for options that the entry omits."""
    made = plan_of(entry)
    if entry.kind != "task":
        return made
    place = table("schedules", entry.name)
    tasks = built_in() if entry.task in built_in() else tasks
    if tasks is None:
        raise InvalidValue(f'{place} task = "{entry.task}": name the app that has it')
    try:
        definition = tasks.get(made.task)
        call = _call(tasks, definition, made, entry)
    except SignatureChanged as error:
        _, _, why = str(error).partition(", but the task is ")
        spoken_of = why.replace("the job has", "args has")
        raise InvalidValue(f"{place} the task is {spoken_of}") from None
    except DulyError as error:
        raise InvalidValue(f"{place} {error}") from None
    retry = call.retry
    if entry.attempts is not None:
        retry = replace(definition.retry, attempts=entry.attempts).as_json()
    said = {name: getattr(call, name) for name in _OF_THE_CALL}
    return replace(made, policies=replace(made.policies, retry=retry), **said)


@cache
def built_in() -> Registry:
    """Return the tasks that come with duly, as duly.send: no app is needed to check their use."""
    from duly.builtin import WORDS, definitions  # noqa: PLC0415 - for those who name a task

    registry = Registry()
    for definition in definitions(WORDS):
        registry.add(definition)
    return registry


def _call(tasks: Registry, definition: Definition, made: Plan, entry: ScheduleEntry) -> JobRequest:
    """Return the request for an entry's jobs.

    Arguments may be invalid while the entry is paused.
    """
    if made.reaction is not None:
        return started(tasks, made.rule, made.task, decode(made.args), **_said(entry))
    try:
        values = definition.signature.decode(made.args)
    except SignatureChanged:
        if not entry.paused:
            raise
        bare = reaction_call(tasks, definition, {}, _said(entry))
        return replace(bare, args=made.args, title=entry.title, limits=())
    return replace(tasks.call(definition, (), values, **_said(entry)), args=made.args)


def _said(entry: ScheduleEntry) -> dict[str, Any]:
    words = ("queue", "priority", "title", "timeout")
    said = {word: found for word in words if (found := getattr(entry, word)) not in (None, "")}
    return said | {"tags": entry.tags}


def _merged(
    live: Plan, wanted: ScheduleEntry, change: PlannedChange, tasks: Registry | None
) -> Plan:
    """Return the live plan with the file's changes; a person's edits and other fields stay."""
    taken = _changed(change)
    if "owner" in taken:
        return filled(wanted, tasks)
    source = filled(wanted, tasks) if _asks_the_task(change, wanted) else plan_of(wanted)
    if taken & _WHAT_RUNS:
        # Another task decides anew; the same one names its jobs by their arguments.
        decides: tuple[str, ...] = ("title",) if wanted.kind == "task" else ()
        if source.task != live.task:
            decides = DECIDED
        taken |= {*decides} - {*set_by_file(wanted)} - {each.field for each in change.drift}
    fields: dict[str, Any] = {name: getattr(source, name) for name in _LABEL if name in taken}
    terms = live.terms
    if taken & _WHAT_RUNS:
        fields |= {name: getattr(source, name) for name in _OF_THE_TASK}
        terms = replace(source.terms, timeout=live.terms.timeout)
    if "timeout" in taken:
        terms = replace(terms, timeout=source.terms.timeout)
    chosen: dict[str, Any] = {
        name: getattr(source.policies, name) for name in _POLICIES if name in taken
    }
    if "attempts" in taken:
        chosen["retry"] = source.policies.retry
    policies = replace(live.policies, **chosen)
    return replace(live, owner=Owner.FILE, terms=terms, policies=policies, **fields)


def _asks_the_task(change: PlannedChange, wanted: ScheduleEntry) -> bool:
    """Return whether the task checks the change. Arguments of a paused entry may not fit."""
    taken = _changed(change)
    resumed = "paused" in taken and not wanted.paused
    return resumed or bool(taken & {*_WHAT_RUNS, *DECIDED, "owner"})


def _changed(change: PlannedChange) -> set[str]:
    return {difference.field for difference in change.differences}


def _applied(text: str, file: str) -> Record:
    """Read the record of the last application; add the defaults of entries that run no task."""
    found = read_record(text, place=f"what was applied as {file}")
    defaults = {
        name: decided_of(plan_of(entry))
        for name, entry in found.sheet.resolved().schedules.items()
        if entry.kind != "task"
    }
    return replace(found, decided=defaults | {**found.decided})


def _queue(entry: QueueEntry) -> Queue:
    return Queue(
        name=entry.name,
        paused=entry.paused,
        note=entry.note if entry.paused else "",
        concurrency=entry.concurrency,
        rate=Rate.parse(entry.rate) if entry.rate else None,
        fair=entry.fair,
    )


PAGE: Final = 1_000


async def exported(store: Store) -> tuple[ScheduleFile, Sequence[str]]:
    """Export the definitions that are not in code; also list what a file cannot express."""
    schedules, notes = await _exported_schedules(store)
    standing = await store.schedules.standing([])
    queues = {
        queue.name: queue_entry(queue)
        for queue in standing.queues.values()
        if queue.paused or not queue.plain
    }
    limits = {rule.name: limit_entry(rule) for rule in standing.limits.values() if any(rule[1:])}
    return ScheduleFile(schedules=schedules, queues=queues, limits=limits), notes


def live_sheet(standing: StoredDefinitions, sheets: Collection[ScheduleFile]) -> ScheduleFile:
    """Return the live state of everything that the sheets name."""
    queues = {name for sheet in sheets for name in sheet.queues} & {*standing.queues}
    limits = {name for sheet in sheets for name in sheet.limits} & {*standing.limits}
    return ScheduleFile(
        schedules={
            name: replace(entry_of(found), attempts=attempts_of(found.plan))
            for name, found in standing.schedules.items()
        },
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


def limit_entry(rule: LimitRule) -> LimitEntry:
    rate = str(rule.rate) if rule.rate else None
    return LimitEntry(name=rule.name, concurrency=rule.concurrency, rate=rate)


async def _exported_schedules(store: Store) -> tuple[dict[str, ScheduleEntry], list[str]]:
    entries: dict[str, ScheduleEntry] = {}
    notes: list[str] = []
    after = ""
    while page := await store.schedules.page(after=after, limit=PAGE):
        after = page[-1].plan.name
        for schedule in page:
            if schedule.plan.owner is Owner.CODE:
                continue
            name = schedule.plan.name
            if schedule.is_finished:  # where it is not known yet, it would run again
                notes.append(f"{name}: it has finished; it is left out")
                continue
            try:
                entry = entry_of(schedule)
                read(write(ScheduleFile(schedules={name: entry})))
            except DulyError as error:
                notes.append(f"{name}: {error}; it is left out")
                continue
            entries[name] = entry
            notes += [f"{name}: {lost}" for lost in _lost(schedule)]
    return entries, notes


def _lost(schedule: StoredSchedule) -> list[str]:
    """Return notes on properties of a schedule that a file cannot express."""
    lost = []
    if schedule.pause and schedule.pause.until:
        lost.append(
            f"it is paused until {schedule.pause.until}; a file can only say that it is paused"
        )
    if schedule.pause and schedule.pause.catch_up:
        lost.append("it catches up after its pause; a file cannot say that")
    return lost

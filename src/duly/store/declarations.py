"""Write the schedules that code declares into the store: once for each set of declarations.

A set of schedules has a mark. The newest set that any live node announces is in force for its app;
a node that restarts with an older one, during a rolling deploy, changes nothing. If no node has
announced the newer set for a while, the deploy was rolled back, and the older set takes effect.

Silence counts only while announcements could have arrived: a node whose set is to take effect must
have announced it without a pause for as long. After an outage all nodes were silent, and the wait
begins anew. A node whose set was in force and was replaced by an older one was alive all the time,
and only its announcements did not arrive: its set takes effect again.

A program that runs schedules beside its own work may have imported only a part of them, and is a
guest: it writes nothing while a node announces a whole set, and it never pauses schedules that it
does not know.

In an existing schedule, only the values that differ from the previous declaration are changed:
edits that a person made since stay, and are reported as drift.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, NamedTuple, cast

from duly.instants import EPOCH, from_us, to_us
from duly.model.job import Owner
from duly.model.schedule import Pause, Plan, StoredSchedule
from duly.store import rows, schedule_changes
from duly.store.database import Ask, Operation, Value
from duly.store.ids import Ids
from duly.store.rows import ScheduleColumns
from duly.store.schedule_changes import unknown
from duly.store.transactions import Editor
from duly.store.values import Decide


class WantedSchedule(NamedTuple):
    """A schedule that code declares, the names it had before, and whether it is added paused."""

    plan: Plan
    aliases: Sequence[str] = ()
    paused: bool = False


@dataclass(slots=True, kw_only=True)
class Declared:
    """The result of announcing the schedules that code declares."""

    since: datetime  # from when on the set that holds does
    superseded: bool = False  # a node holds a newer set: nothing was written
    written: bool = False
    added: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    renamed: list[tuple[str, str]] = field(default_factory=list)
    paused: list[str] = field(default_factory=list)  # they are not declared any more
    resumed: list[str] = field(default_factory=list)
    drift: dict[str, Sequence[str]] = field(default_factory=dict)  # fields that people have edited
    refused: dict[str, str] = field(default_factory=dict)  # and why
    removed: Sequence[str] = ()  # declared, and removed by a person


# So long after its last announcement, a set counts as held by no node.
SILENCE = timedelta(seconds=30)
# A node announces every ten seconds. An announcement later than this was delayed by something.
PAUSE = timedelta(seconds=15)
BY = "code"
GUEST = "~"  # prefix of the marks of guests, which may know only a part

MOST_REMOVED = 1_000

Values = Mapping[str, Value]
# A row for a schedule that is declared but not stored: only its plan is known.
_NOWHERE = ScheduleColumns._make([0] * len(ScheduleColumns._fields))._replace(
    next_at=None, settled_until=None, pause=None, awaiting=None, fault=None, zone_data=""
)


class DeclarationSeen(NamedTuple):
    """The times when a set was announced: first, last, and since when without a pause."""

    first: datetime
    last: datetime
    since: datetime

    def steady_since(self, now: datetime) -> datetime:
        """Return since when the set is announced without a pause, if it is announced now."""
        # Negative: the clock was set back, so the age of the announcement is unknown.
        return self.since if timedelta(0) <= now - self.last <= PAUSE else now

    def is_silent(self, now: datetime, *, listener: datetime) -> bool:
        """Return whether no node announced this set for SILENCE while the listener was running."""
        last = self.last if self.last <= now else listener
        return now - max(last, listener) >= SILENCE


def declare(
    app: str,
    mark: str,
    wanted: Sequence[WantedSchedule],
    *,
    whole: bool,
    was_in_force: bool,
    decide: Decide,
    ids: Ids,
) -> Operation[Declared]:
    """Announce a set, and write it if it is in force for the app and was not written yet.

    ``was_in_force``: the set of the announcing process has been in force before.
    """
    mark = mark if whole else f"{GUEST}{mark}"
    [(holds, since, instant)] = yield Ask("hold_app", {"app": app})
    now = from_us(instant)
    found = yield Ask("known_declarations", {"app": app, "marks": [mark, holds]})
    known = {one: DeclarationSeen(*map(from_us, moments)) for one, *moments in found}
    mine, holder = known.get(mark), known.get(holds)
    steady = now if mine is None else mine.steady_since(now)
    yield Ask("announce_declaration", {"app": app, "mark": mark, "since": to_us(steady)})
    if holds == mark:
        gone = yield from removed(app)
        return Declared(since=from_us(since), removed=[name for name, _ in gone])
    if holder is not None and not holder.is_silent(now, listener=steady):
        if not whole and not holds.startswith(GUEST):
            return Declared(since=from_us(since))
        is_new = mine is None or (whole and holds.startswith(GUEST))
        was_unheard = was_in_force and mine is not None and mine.first > holder.first
        if not is_new and not was_unheard:
            return Declared(superseded=True, since=from_us(since))
    done = Declared(since=now, written=True)
    writer = _DeclarationWriter(app, now, Editor(BY, decide, ids), done)
    written = yield from writer.write(wanted, whole=whole)
    yield Ask("set_app", {"app": app, "mark": mark})
    return written


def in_code(name: str) -> Operation[tuple[str, Plan] | None]:
    """Return the app whose code declares the schedule, and the declared plan; None if no code does.

    The schedule may have been removed: then it can be added again with this plan.
    """
    found = rows.schedules((yield Ask("named_schedules", {"names": [name]})))
    declared = yield from declared_plan(name, found[0] if found else _NOWHERE)
    if declared is None and not found:
        yield from unknown(name)
    return declared


def declared_plan(name: str, row: ScheduleColumns) -> Operation[tuple[str, Plan] | None]:
    """Return the app whose code declares the stored schedule, and the declared plan."""
    found = yield Ask("declared_plans", {"app": "", "names": [name]})
    if not found:
        return None
    [(_, app, text)] = found
    return app, rows.schedule(row._replace(**json.loads(text))).plan


def removed(app: str = "") -> Operation[list[tuple[str, str]]]:
    """Return the schedules, each with its app, that code declares and a person removed."""
    found = yield Ask("removed_declared", {"app": app, "limit": MOST_REMOVED})
    return [(name, whose) for name, whose in found]


@dataclass(slots=True)
class _DeclarationWriter:
    app: str
    now: datetime
    editor: Editor
    done: Declared

    def write(self, wanted: Sequence[WantedSchedule], *, whole: bool) -> Operation[Declared]:
        names = [one.plan.name for one in wanted]
        found = yield Ask("declared_plans", {"app": self.app, "names": names})
        before = {name: json.loads(plan) for name, app, plan in found if app == self.app}
        others = {name: app for name, app, _ in found if app != self.app}
        for one in wanted:
            if one.plan.name in others:
                self.done.refused[one.plan.name] = f"{others[one.plan.name]} declares it, too"
            else:
                yield from self._rename(one, before)
                yield from self._keep(one, before.get(one.plan.name))
        kept = [one.plan for one in wanted if one.plan.name not in self.done.refused]
        declared = [{"name": plan.name, "plan": _text(plan)} for plan in kept]
        yield Ask("keep_declared", {"app": self.app, "rows": rows.packed(declared)})
        if whole:
            yield from self._let_go([name for name in before if name not in set(names)])
        return self.done

    def _rename(self, one: WantedSchedule, before: dict[str, Values]) -> Operation[None]:
        """Rename the schedule that has one of the declared aliases, and keep its history."""
        name = one.plan.name
        for old in one.aliases:
            if old in before and name not in before:
                if (yield Ask("rename_schedule", {"old": old, "name": name})):
                    self.done.renamed.append((old, name))
                    before[name] = {**before[old], "name": name}
                yield Ask("forget_declared", {"app": self.app, "names": [old]})
                del before[old]

    def _keep(self, one: WantedSchedule, before: Values | None) -> Operation[None]:
        plan, paused = one.plan, Pause(since=EPOCH, by=BY) if one.paused else None
        found = rows.schedules((yield Ask("named_schedules", {"names": [plan.name]})))
        if not found:
            numbers = list((yield from self.editor.ids.draw(1)))
            yield from schedule_changes.add([plan], numbers, pause=paused)
            self.done.added.append(plan.name)
        elif found[0].owner != Owner.CODE:
            self.done.refused[plan.name] = f"one of that name was made by {_maker(found[0].owner)}"
        else:
            yield from self._change(found[0], plan, before)

    def _change(self, row: ScheduleColumns, plan: Plan, before: Values | None) -> Operation[None]:
        live = rows.plan_values(rows.schedule(row).plan)
        merged, drift = merge(before, live, rows.plan_values(plan))
        if drift:
            self.done.drift[plan.name] = drift
        if merged != live:
            changed = rows.schedule(row._replace(**cast(dict[str, Any], merged))).plan
            yield from schedule_changes.edit(plan.name, lambda _: changed, self.editor)
            self.done.changed.append(plan.name)
        if self._was_let_go(rows.schedule(row)):
            yield from schedule_changes.resume(plan.name, self.editor)
            self.done.resumed.append(plan.name)

    def _was_let_go(self, schedule: StoredSchedule) -> bool:
        pause = schedule.pause
        return pause is not None and pause.by == BY and pause.note.startswith(self._gone)

    def _let_go(self, names: Sequence[str]) -> Operation[None]:
        """Pause schedules that the code does not declare any more; they are never deleted."""
        for name in names:
            found = rows.schedules((yield Ask("named_schedules", {"names": [name]})))
            if found and found[0].pause is None and found[0].owner == Owner.CODE:
                note = f"{self._gone} since {self.now:%Y-%m-%d %H:%M} UTC"
                wanted = Pause(since=EPOCH, by=BY, note=note)
                yield from schedule_changes.pause(name, wanted, self.editor)
                self.done.paused.append(name)
        yield Ask("forget_declared", {"app": self.app, "names": list(names)})

    @property
    def _gone(self) -> str:
        return f"no longer in {self.app}"


def merge(
    before: Values | None, live: Values, wanted: Values
) -> tuple[dict[str, Value], list[str]]:
    """Merge a declared plan into the live one by column; return it and the columns that drifted.

    The code may change a column whose live value is as declared before. Any other was edited.
    """
    if before is None:
        return dict(wanted), []
    merged: dict[str, Value] = {}
    drift: list[str] = []
    for column, value in wanted.items():
        if column == "policies":
            merged[column], edited = _policies(before, live, wanted)
            drift += edited
        elif live[column] == before.get(column, live[column]):
            merged[column] = value
        else:
            merged[column] = live[column]
            if live[column] != value:
                drift.append(column)
    return merged, drift


def _policies(before: Values, live: Values, wanted: Values) -> tuple[Value, list[str]]:
    """Merge the policies one by one, like ``merge``; a policy not in the text has its default."""
    was, now, asked = (
        json.loads(str(values.get("policies") or "{}")) for values in (before, live, wanted)
    )
    merged, drift = {}, []
    for choice in sorted({*was, *now, *asked}):
        edited = now.get(choice) != was.get(choice)
        if edited and now.get(choice) != asked.get(choice):
            drift.append(choice)
        taken = now if edited else asked
        if choice in taken:
            merged[choice] = taken[choice]
    return json.dumps(merged, sort_keys=True, separators=(",", ":")), drift


def _text(plan: Plan) -> str:
    return json.dumps(rows.plan_values(plan), sort_keys=True)


def _maker(owner: str) -> str:
    return {"api": "the program", "file": "a file", "person": "a person"}.get(owner, owner)

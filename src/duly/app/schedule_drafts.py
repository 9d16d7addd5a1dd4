"""Schedules that people type: drafts, which are parsed as far as possible, and their changes.

All fields are text. A draft has the resulting plan or the error, the differences from the existing
plan, and the next due moments.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final

from duly.app.access import login
from duly.app.plans import given_policies, label_of
from duly.errors import DulyError, RuleError
from duly.model.job import Owner
from duly.model.payload import encode
from duly.model.policies import Missed, Policies
from duly.model.schedule import Plan
from duly.model.schedule_fields import fields_on
from duly.registry.option_values import name_of
from duly.rules import Budget, On, Rule, Spaced, clock_change_notes
from duly.views.schedules import own_zone, policies_in_words

COMMAND = "duly.command"  # the built-in task that runs a program


def new_plan(
    name: str, rule: str, *, task: str, args: Mapping[str, object], words: Mapping[str, Any]
) -> Plan:
    """Make a plan that a person typed; ``words`` are options of the schedule and of its jobs."""
    return Plan(
        name=name_of("name", name),
        rule=rule,
        zone=words.get("zone"),
        task=task,
        args=encode(args),
        owner=Owner.PERSON,
        policies=_policies(Policies(), words),
        **{"submitter": login(), **label_of(words)},
    )


def changed_plan(plan: Plan, rule: str | None, words: Mapping[str, Any]) -> Plan:
    """Return the plan with the given options changed and all others kept."""
    return replace(
        plan,
        rule=plan.rule if rule is None else rule,
        zone=words.get("zone", plan.zone),
        policies=_policies(plan.policies, words),
        **label_of(words),
    )


def _policies(policies: Policies, words: Mapping[str, Any]) -> Policies:
    missed = policies.missed
    chosen = {
        "missed": Missed(
            words.get("missed", missed.policy),
            at_most=words.get("at_most", missed.at_most),
            spacing=words.get("spacing", missed.spacing),
            grace=missed.grace,
        )
    }
    return replace(policies, **{**given_policies(words), **chosen})


MOMENTS: Final = 10
A_DAY: Final = timedelta(days=1)
FAR: Final = timedelta(days=366 * 30)
FIELDS: Final = {one.name: one for one in fields_on("form")}
BUILT_IN: Final = ("duly.shell", "duly.command", "duly.http")
_CALLED: Final = {"name": "name", "task": "task", "rule": "time"}
_DEFAULTS: Final = dict.fromkeys((*FIELDS, "paused"), "")


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldEdit:
    """A field whose value would change."""

    field: str
    old: str
    new: str
    value: object  # as it is said to the API


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleDraft:
    plan: Plan | None  # None if the typed fields make no plan
    error: str
    edits: Sequence[FieldEdit]
    sentence: str = ""
    policies: Sequence[str] = ()
    zone: str | None = None
    moments: Sequence[datetime] = ()
    notes: Sequence[str] = ()
    often: str = ""  # how many runs a day that makes
    missing: str = ""  # the fields required before it can be saved

    @property
    def body(self) -> dict[str, object]:
        """Return the request body for the API: the edited fields only."""
        return {edit.field: edit.value for edit in self.edits}


def texts_of(plan: Plan) -> dict[str, str]:
    """Return each field of a plan as the text that a person would type."""
    return {name: one.text_in(plan) for name, one in FIELDS.items()}


def edited_draft(plan: Plan, typed: Mapping[str, str], *, now: datetime) -> ScheduleDraft:
    """Apply typed fields to an existing plan. Fields that were not typed stay unchanged."""
    edits: list[FieldEdit] = []
    try:
        edits = _edits(texts_of(plan), typed)
        words: dict[str, Any] = {edit.field: edit.value for edit in edits}
        rule = words.pop("rule", None)
        return _seen(changed_plan(plan, rule, words), edits, now)
    except DulyError as error:
        return ScheduleDraft(plan=None, error=str(error), edits=edits)


def new_draft(typed: Mapping[str, str], *, zone: str | None, now: datetime) -> ScheduleDraft:
    """Make a draft of a new schedule from typed fields; ``zone`` is for rules that name none.

    A rule is evaluated even if other fields are missing. Arguments are left out: they may be
    secret.
    """
    said = {field: typed.get(field, "").strip() for field in ("name", "task", "rule")}
    missing = " and ".join(f"a {_CALLED[field]}" for field, text in said.items() if not text)
    edits: list[FieldEdit] = []
    try:
        edits = [one for one in _edits(_DEFAULTS, {"zone": zone or "", **typed}) if one.new]
        if not said["rule"]:
            return ScheduleDraft(plan=None, error="", edits=edits, missing=missing)
        words: dict[str, Any] = {edit.field: edit.value for edit in edits}
        plan = new_plan(
            said["name"] or "unnamed",
            words.pop("rule"),
            task=said["task"] or "unnamed",
            args={},
            words=words,
        )
        seen = _seen(plan, edits, now)
    except DulyError as error:
        return ScheduleDraft(plan=None, error=str(error), edits=edits)
    first = [
        FieldEdit(field=field, old="", new=said[field], value=said[field])
        for field in ("name", "task")
    ]
    return replace(seen, edits=[*first, *edits], missing=missing)


def _edits(old: Mapping[str, str], typed: Mapping[str, str]) -> list[FieldEdit]:
    return [
        FieldEdit(field=field, old=old[field], new=new, value=_value(field, new))
        for field in old
        if field in typed and (new := " ".join(typed[field].split())) != old[field]
    ]


def _value(field: str, text: str) -> object:
    if field == "paused":
        return bool(text)
    return None if FIELDS[field].optional and not text else FIELDS[field].typed(text)


def _seen(plan: Plan, edits: Sequence[FieldEdit], now: datetime) -> ScheduleDraft:
    with Budget():
        return _evaluated(plan, edits, now)


def _evaluated(plan: Plan, edits: Sequence[FieldEdit], now: datetime) -> ScheduleDraft:
    kept = plan.kept
    count = min(MOMENTS, plan.policies.max_runs or MOMENTS)
    following = list(kept.between(now, now + FAR, count)) if isinstance(kept, Rule) else []
    return ScheduleDraft(
        plan=plan,
        error="",
        edits=edits,
        sentence=kept.explain(),
        policies=policies_in_words(plan),
        zone=own_zone(plan),
        moments=following,
        notes=clock_change_notes(kept, now),
        often=_often(kept, now, plan.policies.max_runs),
    )


def _often(rule: Rule | Spaced, now: datetime, most: int | None) -> str:
    """Say how many runs the rule makes in the next day, else in the next week, else in a year."""
    if isinstance(rule, On):
        return "as often as it happens"
    if not isinstance(rule, Rule):
        return "as often as its runs end"
    try:
        for days, unit in ((1, "day"), (7, "week"), (366, "year")):
            count = rule.count(now, now + days * A_DAY)
            count = count if most is None else min(count, most)
            if count:
                return f"{count:,} {'run' if count == 1 else 'runs'} in the next {unit}"
    except RuleError:
        return "more runs in a day than can be counted"
    return "no run within a year"

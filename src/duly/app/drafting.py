"""A draft of a schedule from typed fields: parsed as far as possible, and never stored.

All fields are text. A draft has the resulting plan or the error, the differences from the existing
plan, and the next due moments.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final

from duly.app.typed_schedules import changed_plan, new_plan
from duly.durations import show_duration
from duly.errors import DulyError, RuleError
from duly.model.schedule import Plan
from duly.rules import Budget, On, Rule, clock_change_notes
from duly.views.schedules import own_zone, policies_in_words

MOMENTS: Final = 10
A_DAY: Final = timedelta(days=1)
FAR: Final = timedelta(days=366 * 30)
FIELDS: Final = (
    "rule", "zone", "overlap", "missed", "at_most", "spacing", "start_within", "late", "dst",
    "exclude", "jitter", "max_runs", "queue", "priority", "title", "tags",
)  # fmt: skip
# Left empty, these mean: none.
_MAY_BE_NONE: Final = ("zone", "spacing", "start_within", "exclude", "jitter", "max_runs")
_NUMBERS: Final = ("at_most", "priority", "max_runs")
_CALLED: Final = {"name": "name", "task": "task", "rule": "time"}
_DEFAULTS: Final = dict.fromkeys(FIELDS, "")


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
    policies = plan.policies
    return {
        "rule": plan.rule,
        "zone": plan.zone or "",
        "overlap": policies.overlap,
        "missed": policies.missed.policy,
        "at_most": str(policies.missed.at_most),
        "spacing": _length(policies.missed.spacing),
        "start_within": _length(policies.start_within),
        "late": policies.late,
        "dst": policies.dst,
        "exclude": policies.exclude or "",
        "jitter": _length(policies.jitter),
        "max_runs": "" if policies.max_runs is None else str(policies.max_runs),
        "queue": plan.queue,
        "priority": str(plan.priority),
        "title": plan.title,
        "tags": ", ".join(plan.tags),
    }


def edited_draft(plan: Plan, typed: Mapping[str, str], *, now: datetime) -> ScheduleDraft:
    """Apply typed fields to an existing plan. Fields that were not typed stay unchanged."""
    edits: list[FieldEdit] = []
    try:
        edits = _edits(texts_of(plan), typed)
        words = {edit.field: _word(edit) for edit in edits}
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
        words = {edit.field: _word(edit) for edit in edits}
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
        for field in FIELDS
        if field in typed and (new := " ".join(typed[field].split())) != old[field]
    ]


def _value(field: str, text: str) -> object:
    if field == "tags":
        return [tag.strip() for tag in text.split(",") if tag.strip()]
    if not text and field in _MAY_BE_NONE:
        return None
    if field in _NUMBERS:
        with suppress(ValueError):
            return int(text)
    return text


def _word(edit: FieldEdit) -> Any:  # noqa: ANN401 - whatever the field takes
    return tuple(edit.value) if isinstance(edit.value, list) else edit.value


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
        often=_often(kept, now) if isinstance(kept, Rule) else "as often as its runs end",
    )


def _often(rule: Rule, now: datetime) -> str:
    """Say how many runs the rule makes in the next day, else in the next week, else in a year."""
    if isinstance(rule, On):
        return "as often as it happens"
    try:
        for days, unit in ((1, "day"), (7, "week"), (366, "year")):
            count = rule.count(now, now + days * A_DAY)
            if count:
                return f"{count:,} {'run' if count == 1 else 'runs'} in the next {unit}"
    except RuleError:
        return "more runs in a day than can be counted"
    return "no run within a year"


def _length(span: timedelta | None) -> str:
    return "" if span is None else show_duration(span)

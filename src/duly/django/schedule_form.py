"""The form of a schedule in the admin: one for all kinds of rules, with duly's own checks.

Every field is text that ``app.drafting`` reads, as in the dashboard. The kind of the rule decides
which fields are shown: a moment, a number and a unit, or the text of the rule.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from django import forms
from django.contrib.admin.widgets import AdminTextareaWidget, AdminTextInputWidget

from duly import clock
from duly.app.calls_by_name import change_named, plan_named
from duly.app.schedule_drafts import (
    BUILT_IN,
    FIELDS,
    ScheduleDraft,
    edited_draft,
    new_draft,
    texts_of,
)
from duly.app.schedules import Change
from duly.django.app import duly
from duly.django.models import ScheduledTask
from duly.errors import DulyError, NotFound
from duly.model.job import Owner
from duly.model.schedule import Plan
from duly.model.schedule_fields import DST
from duly.policy.redaction import hidden_json
from duly.registry.option_values import name_of

# How the text of a rule begins; the first that fits is its kind. Also a filter in SQL.
KINDS: Final = {
    "once": ("once", r"^\d{4}-\d\d-\d\d[T ]\d\d:\d\d"),
    "repeatable": ("repeatable", r"^(every|spaced) "),
    "rrule": ("RRULE", r"^(RRULE|DTSTART)"),
    "event": ("event", r"^on "),
    "cron": ("cron", r"^(@[a-z]|([^\s:~.]+\s+){2}[^:~]*$)"),
    "calendar": ("calendar, or any rule", r""),
}
EXAMPLES: Final = {
    "cron": "0 2 * * 1-5",
    "calendar": "Mon..Fri 09:00",
    "rrule": "DTSTART:20270104T090000 RRULE:FREQ=MONTHLY;BYDAY=-1FR",
    "event": "on order.paid",
}
UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
HARMLESS: Final = "every 1h"  # a rule that fits every other field
ANY: Final = "calendar"  # the kind whose field takes the text of any rule
_WITH_OWN_FIELDS: Final = {"once": "moment", "repeatable": "number"}
_EVERY: Final = re.compile(r"every (\d+)([smhdw])")
_PLAIN: Final = re.compile(r"[\d-]+T[\d:]+")
_CHECKED_ALONE: Final = tuple(field for field in FIELDS if field != "rule")


def kind_of(rule: str) -> str:
    return next(kind for kind, (_, text) in KINDS.items() if re.search(text, rule))


def _shown_for(*kinds: str, **attributes: str) -> dict[str, str]:
    return {"data-kinds": " ".join(kinds), **attributes}


class ScheduleForm(forms.ModelForm):
    plan: Plan | None = None  # as it is stored
    wanted: Plan | None = None  # as the form says it, if that makes a schedule
    change: Change | None = None  # from the first to the second

    name = forms.CharField(widget=AdminTextInputWidget, help_text="It identifies the schedule.")
    task = forms.ChoiceField()
    args = forms.CharField(
        label="Arguments",
        required=False,
        initial="{}",
        widget=AdminTextareaWidget({"rows": 4}),
        help_text='JSON by name, as {"order_id": 7}; checked against the parameters of the task.',
    )
    enabled = forms.BooleanField(required=False, initial=True)
    kind = forms.ChoiceField(
        label="Type",
        choices=[(kind, label) for kind, (label, _) in KINDS.items()],
        initial="cron",
        widget=forms.Select({"data-examples": json.dumps(EXAMPLES)}),
    )
    moment = forms.CharField(
        label="Moment",
        required=False,
        widget=forms.DateTimeInput(_shown_for("once", type="datetime-local", step="1")),
    )
    number = forms.CharField(
        label="Every",
        required=False,
        widget=forms.NumberInput(_shown_for("repeatable", min="1")),
    )
    unit = forms.ChoiceField(
        choices=list(UNITS.items()),
        initial="m",
        required=False,
        widget=forms.Select(_shown_for("repeatable")),
    )
    rule = forms.CharField(
        required=False, widget=AdminTextInputWidget(_shown_for(*EXAMPLES, size="60"))
    )

    class Meta:
        model = ScheduledTask
        fields: tuple[str, ...] = ()

    class Media:
        js = ("duly/schedule_form.js",)

    def __init__(self, *args: Any, **words: Any) -> None:
        super().__init__(*args, **words)
        if self.instance.pk:
            found = duly.schedules.get(self.instance.name)
            self.plan = found.plan
            self.initial.update(_initial(self.plan), enabled=not found.paused)
            self.fields["name"].disabled = self.fields["task"].disabled = True
        known = [one.name for one in duly.registry]
        own = [] if self.plan is None else [self.plan.task]
        names = dict.fromkeys([*own, *sorted(known), *BUILT_IN])
        self.fields["task"].choices = [(name, name) for name in names]

    def clean(self) -> dict[str, Any]:
        said: dict[str, Any] = super().clean() or {}
        typed = typed_fields(said)
        for field in _CHECKED_ALONE:
            if field in said and (error := self._alone(field, typed[field])):
                self.add_error(field, error)
        self._check_name(said)
        if not self.errors and (draft := self.draft(typed)).plan is None:
            wrong = draft.error or f"a schedule needs {draft.missing}"
            self.add_error(_WITH_OWN_FIELDS.get(said["kind"], "rule"), wrong)
        arguments = self._arguments(said)
        if not self.errors and arguments is not None:
            try:
                self._plan(said, typed, arguments)
            except DulyError as error:
                self.add_error("args", str(error))
        return said

    def draft(self, typed: Mapping[str, str]) -> ScheduleDraft:
        """Return the schedule as it is typed so far, with its next moments or what is wrong."""
        if self.plan is not None:
            return edited_draft(self.plan, typed, now=clock.now())
        given = {**typed, "zone": typed.get("zone") or duly.zone or ""}
        return new_draft(given, zone=None, now=clock.now())

    def _alone(self, field: str, text: str) -> str:
        """Return why a field is wrong, whatever the others say."""
        base = {} if self.plan else {"name": "x", "task": "x", "rule": HARMLESS}
        return self.draft({**base, field: text}).error

    def _check_name(self, said: Mapping[str, Any]) -> None:
        if self.plan is not None or "name" not in said:
            return
        try:
            name_of("name", said["name"])
            duly.schedules.get(said["name"])
        except NotFound:
            return
        except DulyError as error:
            self.add_error("name", str(error))
        else:
            self.add_error("name", f'there is a schedule "{said["name"]}" already')

    def _arguments(self, said: Mapping[str, Any]) -> dict[str, Any] | None:
        try:
            found = json.loads(said.get("args") or "{}")
        except ValueError as error:
            self.add_error("args", f"this is not JSON: {error}")
            return None
        if not isinstance(found, dict):
            self.add_error("args", 'arguments are given by name, as {"order_id": 7}')
            return None
        return found

    def _plan(
        self, said: Mapping[str, Any], typed: Mapping[str, str], args: dict[str, Any]
    ) -> None:
        words = {
            name: tuple(value) if isinstance(value, list) else value
            for name, value in self.draft(typed).body.items()
            if name not in ("name", "task")
        }
        rule: Any = words.pop("rule", None)
        if self.plan is not None:
            self.change = change_named(duly.registry, rule, args, words)
            self.wanted = self.change(self.plan)
            return
        self.wanted = plan_named(
            duly.registry,
            said["name"],
            rule,
            task=said["task"],
            args=args,
            owner=Owner.PERSON,
            submitter="",
            words=words,
        )

    def wanted_by(self, who: str) -> Plan:
        """Return the plan of a valid form, under the name of the person who makes it."""
        assert self.wanted is not None  # noqa: S101 - the form is valid
        return replace(self.wanted, submitter=who)


def _add_policy_fields() -> None:
    """Add a field for each option of a schedule that has no widget of its own above."""
    for name, one in FIELDS.items():
        if name in ScheduleForm.base_fields:
            continue
        field: forms.Field = forms.CharField(required=False, widget=AdminTextInputWidget)
        if choices := one.choices or (dict(zip(DST, DST, strict=True)) if name == "dst" else {}):
            field = forms.ChoiceField(choices=list(choices.items()))
        field.initial = one.default_text
        field.label = one.label.removeprefix("… ").capitalize()
        field.help_text = one.about.replace("zone in duly.toml", "TIME_ZONE of the project")
        ScheduleForm.declared_fields[name] = ScheduleForm.base_fields[name] = field


_add_policy_fields()


def typed_fields(said: Mapping[str, Any]) -> dict[str, str]:
    """Return the fields as text, with the rule that the fields of its kind make."""
    typed = {name: str(said.get(name) or "") for name in ("name", "task", *FIELDS)}
    if said.get("kind") == "once":
        typed["rule"] = str(said.get("moment") or "")
    elif said.get("kind") == "repeatable":
        number = said.get("number") or ""
        typed["rule"] = f"every {number}{said.get('unit') or 'm'}" if number else ""
    return typed


def _initial(plan: Plan) -> dict[str, Any]:
    found: dict[str, Any] = {
        **texts_of(plan),
        "name": plan.name,
        "task": plan.task,
        "args": hidden_json(plan.task, plan.args),
        "kind": kind_of(plan.rule),
    }
    every = _EVERY.fullmatch(plan.rule)
    if found["kind"] == "once" and _PLAIN.fullmatch(plan.rule):
        found["moment"] = plan.rule
    elif every:
        found["number"], found["unit"] = every.groups()
    elif found["kind"] in _WITH_OWN_FIELDS:
        found["kind"] = ANY  # it says more than those fields can: its text is edited
    return found

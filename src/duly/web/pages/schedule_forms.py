"""Forms for actions on a schedule, shown beside its page: run, pause, backfill, replay, edit.

The fields of a run's form are derived from the types of the parameters of the task.
"""

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from enum import Enum
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Literal, TypeAlias, Union, get_args, get_origin

from duly.app.schedule_drafts import (
    BUILT_IN,
    FIELDS,
    ScheduleDraft,
    edited_draft,
    new_draft,
    texts_of,
)
from duly.clock import now
from duly.errors import DulyError, InvalidValue
from duly.model.fire import Backfill
from duly.model.schedule import Plan
from duly.model.schedule_fields import DST
from duly.policy.reaction import is_field
from duly.policy.redaction import HIDDEN, hidden_json
from duly.registry.annotations import resolved
from duly.registry.codecs import ENCODER
from duly.registry.definition import Definition
from duly.registry.parameters import Parameters
from duly.rules import local_time, zone_names
from duly.views.schedules import own_zone
from duly.views.times import read_moment
from duly.web.pages.schedules import OWNERS
from duly.web.rendering import as_json
from duly.web.request import WebRequest
from duly.web.routes import PageRouter, Values

FORMS: Final = PageRouter(tenants=True)
MOST_SHOWN: Final = 40
A_DAY: Final = timedelta(days=1)


@FORMS.page("/schedules/{name:path}/run", "schedule_run.html", "operator")
async def run(request: WebRequest, name: str) -> Values:
    """Return a form field for each parameter; arguments of an unknown task are one JSON text."""
    found = await request.app.schedules.aget(name)
    registry = request.app.registry
    known, args = found.task in registry, _without_events(found.args)
    return {
        "schedule": found,
        "known": known,
        "fields": fields_of(registry.get(found.task), args) if known else [],
        "args": as_json(json.loads(hidden_json(found.task, args))),
    }


@FORMS.page("/schedules/{name:path}/pause", "schedule_pause.html", "operator")
async def pause(request: WebRequest, name: str) -> Values:
    return {"schedule": await request.app.schedules.aget(name)}


@FORMS.page("/schedules/{name:path}/backfill", "schedule_backfill.html", "operator")
async def backfill(request: WebRequest, name: str) -> Values:
    """Return the values of the backfill form; the default is yesterday in the schedule's zone."""
    found = await request.app.schedules.aget(name)
    zone = _zone(found.plan, request)
    today = local_time(now(), zone).replace(hour=0, minute=0, second=0, microsecond=0)
    return {
        "schedule": found,
        "zone": zone,
        "start": _wall(today - A_DAY),
        "end": _wall(today),
    }


@FORMS.page("/schedules/{name:path}/backfill/preview", "schedule_backfill_preview.html", "operator")
async def backfill_preview(request: WebRequest, name: str) -> Values:
    """Return the result of a dry run of the backfill."""
    found = await request.app.schedules.aget(name)
    zone, again = _zone(found.plan, request), request.query.get("again") == "true"
    refused, done, body = "", None, ""
    try:
        start, end = (_moment(request.query.get(what, ""), zone, what) for what in ("start", "end"))
        end = min(end, now())
        done = await request.app.schedules.abackfill(
            found.name, start, end, dry_run=True, again=again
        )
        body = json.dumps({"start": start.isoformat(), "end": end.isoformat(), "again": again})
    except DulyError as error:
        refused = str(error)
    return {
        "schedule": found,
        "zone": zone,
        "refused": refused,
        "found": done,
        "moments": _shown(done),
        "body": body,
    }


@FORMS.page("/schedules/{name:path}/replay", "schedule_replay.html", "operator")
async def replay(request: WebRequest, name: str) -> Values:
    """Return the values of the replay form; the default start is 24 hours ago."""
    found = await request.app.schedules.aget(name)
    zone = _zone(found.plan, request)
    since = local_time(now() - A_DAY, zone).replace(second=0, microsecond=0)
    return {"schedule": found, "zone": zone, "since": _wall(since)}


@FORMS.page("/schedules/{name:path}/replay/preview", "schedule_replay_preview.html", "operator")
async def replay_preview(request: WebRequest, name: str) -> Values:
    """Return the result of a dry run of the replay: how many events it would react to."""
    found = await request.app.schedules.aget(name)
    zone, refused, done = _zone(found.plan, request), "", None
    body: dict[str, str] = {}
    try:
        since = _moment(request.query.get("since", ""), zone, "beginning")
        until = _moment(request.query["until"], zone, "end") if request.query.get("until") else None
        only = request.query.get("only", "").strip() or None
        done = await request.app.events.areplay(
            found.name, since, until, pattern=only, dry_run=True
        )
        said = {"since": since.isoformat(), "until": until and until.isoformat(), "only": only}
        body = {name: value for name, value in said.items() if value}
    except DulyError as error:
        refused = str(error)
    text = json.dumps({"schedule": found.name, **body})
    return {"schedule": found, "refused": refused, "found": done, "body": text}


def _without_events(args: str) -> str:
    """Drop arguments that come from an event: for a manual run, the user fills them in."""
    said = {name: value for name, value in json.loads(args).items() if not is_field(value)}
    return json.dumps(said)


def _shown(found: Backfill | None) -> list[datetime]:
    return list(found.queued[:MOST_SHOWN]) if found is not None else []


def _zone(plan: Plan, request: WebRequest) -> str:
    return own_zone(plan) or request.app.backend.zone or "UTC"


def _moment(text: str, zone: str, what: str) -> datetime:
    """Parse the local time of a browser's datetime field in a time zone."""
    if not text:
        raise InvalidValue(f"say the {what} of the stretch")
    return read_moment(text, what=what, zone=zone)


def _wall(moment: datetime) -> str:
    return f"{moment:%Y-%m-%dT%H:%M}"


@FORMS.page("/schedules/{name:path}/edit", "schedule_edit.html", "operator")
async def edit(request: WebRequest, name: str) -> Values:
    found = await request.app.schedules.aget(name)
    return {
        "schedule": found,
        "reacts": found.plan.reaction is not None,
        "texts": texts_of(found.plan),
        "owner_says": OWNERS[found.owner],
        **_choices(),
    }


@FORMS.page("/schedules/{name:path}/edit/preview", "schedule_preview.html", "operator")
async def edit_preview(request: WebRequest, name: str) -> Values:
    found = await request.app.schedules.aget(name)
    draft = await asyncio.to_thread(edited_draft, found.plan, dict(request.query), now=now())
    return {"schedule": found, **_drafted(draft, request)}


@FORMS.page("/schedules/new", "schedule_edit.html", "operator")
async def new(request: WebRequest) -> Values:
    """Return the values of the form for a new schedule, filled with the defaults."""
    known = [one.name for one in request.app.registry]
    return {
        "schedule": None,
        "reacts": False,
        "tasks": [*known, *(name for name in BUILT_IN if name not in known)],
        "texts": {name: one.default_text for name, one in FIELDS.items()}
        | {"rule": "", "zone": request.app.backend.zone or ""},
        **_choices(),
    }


@FORMS.page("/schedules/new/preview", "schedule_preview.html", "operator")
async def new_preview(request: WebRequest) -> Values:
    typed, zone = dict(request.query), request.app.backend.zone
    draft = await asyncio.to_thread(new_draft, typed, zone=zone, now=now())
    return {"schedule": None, **_drafted(draft, request)}


def _drafted(draft: ScheduleDraft, request: WebRequest) -> dict[str, Any]:
    here = (
        request.preferences.zone
        if request.preferences.zone in zone_names()
        else request.query.get("here", "")
    )
    return {
        "draft": draft,
        "here": here if here in zone_names() else None,
        "body": json.dumps(draft.body),
        "policies": _sentence("; ".join(draft.policies)),
        "often": _sentence(draft.often),
        "on_clock": _on_clock,
    }


def _sentence(words: str) -> str:
    return f"{words[:1].upper()}{words[1:]}." if words else ""


def _on_clock(moment: datetime, zone: str) -> str:
    return f"{local_time(moment, zone):%a %Y-%m-%d %H:%M:%S}"


def _choices() -> dict[str, Any]:
    return {
        "fields": FIELDS,
        "policies": [one for one in FIELDS.values() if one.path],
        "job_options": [one for one in FIELDS.values() if one.of_jobs],
        "dst": DST,
        "zones": sorted(zone_names()),
    }


Kind: TypeAlias = Literal["text", "number", "checkbox", "select", "date", "json"]
_NUMBERS: Final = (int, float)


@dataclass(frozen=True, slots=True, kw_only=True)
class FormField:
    name: str
    kind: Kind
    required: bool
    value: str = ""  # as the user would type it
    choices: Sequence[tuple[str, str]] = ()  # of a select: JSON value and label
    step: str = "1"  # of a number
    none: bool = False  # an empty field means None, not the default

    @property
    def is_json(self) -> bool:
        """True if the field's text is parsed as JSON."""
        return self.kind in ("number", "select", "json")


def fields_of(definition: Definition, args: str) -> list[FormField]:
    """Return a field for each parameter, filled with the argument or else the default.

    A secret is shown as ``***``, which stands for its value if it is not changed.
    """
    parameters = definition.signature.parameters
    types = _types(parameters)
    shown: dict[str, object] = json.loads(hidden_json(definition.name, args))
    fields = []
    for name in parameters.names:
        known, value = _value(name, shown, parameters.defaults)
        fields.append(
            _field(
                name,
                types.get(name, Any),
                value=value,
                known=known,
                required=name in parameters.required,
            )
        )
    return fields


def _types(parameters: Parameters) -> Mapping[str, Any]:
    """Return the types; empty if one cannot be resolved, and then all fields take JSON."""
    try:
        return resolved(parameters.function, parameters.annotations)
    except NameError:
        return {}


def _value(
    name: str, given: Mapping[str, object], defaults: Mapping[str, object]
) -> tuple[bool, object]:
    if name in given:
        return True, given[name]
    if name not in defaults:
        return False, None
    try:
        return True, json.loads(ENCODER.encode(defaults[name]))
    except Exception:  # noqa: BLE001 - a default of any type, which need not have a form in JSON
        return False, None


def _field(
    name: str,
    hint: Any,  # noqa: ANN401 - a type, as annotations have
    *,
    value: object,
    known: bool,
    required: bool,
) -> FormField:
    hint, optional = _plain(hint)
    kind, choices = _kind(hint)
    if kind == "text" and known and not isinstance(value, str | NoneType):
        kind = "json"
    if value == HIDDEN:
        kind = "text"
    return FormField(
        name=name,
        kind=kind,
        required=required and not optional and kind != "checkbox",
        value=_typed(value, kind) if known else "",
        choices=choices,
        step="any" if hint is float else "1",
        none=optional and required,
    )


def _plain(hint: Any) -> tuple[Any, bool]:  # noqa: ANN401 - a type, as annotations have
    """Return the type without Annotated and Optional, and whether it may be None."""
    if get_origin(hint) is Annotated:
        return _plain(get_args(hint)[0])
    if get_origin(hint) not in (Union, UnionType):
        return hint, False
    inside = [one for one in get_args(hint) if one is not NoneType]
    if len(inside) == len(get_args(hint)):
        return hint, False
    return (inside[0], True) if len(inside) == 1 else (hint, True)


def _kind(hint: Any) -> tuple[Kind, Sequence[tuple[str, str]]]:  # noqa: ANN401, PLR0911 - a type in, a kind out
    if get_origin(hint) is Literal:
        return "select", [(json.dumps(one), str(one)) for one in get_args(hint)]
    if hint is bool:
        return "checkbox", ()
    if hint in _NUMBERS:
        return "number", ()
    if hint is str:
        return "text", ()
    if hint is date:
        return "date", ()
    if hint is datetime:
        return "text", ()
    if isinstance(hint, type) and issubclass(hint, Enum):
        return "select", [(json.dumps(one.value), one.name.lower()) for one in hint]
    return "json", ()


def _typed(value: object, kind: Kind) -> str:
    match kind:
        case "text" | "date":
            return "" if value is None else str(value)
        case "checkbox":
            return "true" if value else ""
        case "select":
            return json.dumps(value)
        case "number" | "json":
            return "" if value is None else json.dumps(value, ensure_ascii=False)

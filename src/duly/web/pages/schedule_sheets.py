"""What is asked before something is done to a schedule: beside its page, in forms."""

import json
from datetime import datetime, timedelta
from typing import Final

from duly.app.backfill import Backfill
from duly.app.steering import own_zone
from duly.clock import now
from duly.errors import DulyError, InvalidValue
from duly.model.schedule import Plan
from duly.policy.redaction import hidden_json
from duly.rules import at, local_time
from duly.web.asking import Ask
from duly.web.forms import fields_of
from duly.web.house import House
from duly.web.page import Page, Values
from duly.web.saying import as_json

MOST_SHOWN: Final = 40
A_DAY: Final = timedelta(days=1)


async def run(_: House, ask: Ask) -> Values:
    """A field for each parameter of the task; what is not known here is said as JSON."""
    found = await ask.front.schedules.aget(ask.name("name"))
    registry = ask.front.registry
    known = found.task in registry
    return {
        "schedule": found,
        "known": known,
        "fields": fields_of(registry.get(found.task), found.args) if known else [],
        "args": as_json(json.loads(hidden_json(found.task, found.args))),
    }


async def pause(_: House, ask: Ask) -> Values:
    return {"schedule": await ask.front.schedules.aget(ask.name("name"))}


async def backfill(house: House, ask: Ask) -> Values:
    """Yesterday, on the clock of the schedule, until somebody says another stretch."""
    found = await ask.front.schedules.aget(ask.name("name"))
    zone = _zone(found.plan, house)
    today = local_time(now(), zone).replace(hour=0, minute=0, second=0, microsecond=0)
    return {
        "schedule": found,
        "zone": zone,
        "start": _wall(today - A_DAY),
        "end": _wall(today),
    }


async def backfill_preview(house: House, ask: Ask) -> Values:
    """What would be done: asked of the store, and nothing is done."""
    found = await ask.front.schedules.aget(ask.name("name"))
    zone, again = _zone(found.plan, house), ask.query.get("again") == "true"
    refused, done, body = "", None, ""
    try:
        start, end = (_moment(ask.query.get(what, ""), zone, what) for what in ("start", "end"))
        end = min(end, now())
        done = await ask.front.schedules.abackfill(
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


def _shown(found: Backfill | None) -> list[datetime]:
    return list(found.queued[:MOST_SHOWN]) if found is not None else []


def _zone(plan: Plan, house: House) -> str:
    return own_zone(plan) or house.lobby.zone or "UTC"


def _moment(text: str, zone: str, what: str) -> datetime:
    """A time as a browser's field for one gives it, on the clock of a zone."""
    if not text:
        raise InvalidValue(f"say the {what} of the stretch")
    moment = at(text, zone=zone).after(_BEGINNING)
    if moment is None:
        raise InvalidValue(f"{text} does not exist in {zone}: the clocks were set")
    return moment


def _wall(moment: datetime) -> str:
    return f"{moment:%Y-%m-%dT%H:%M}"


_BEGINNING: Final = datetime.fromisoformat("1970-01-01T00:00:00+00:00")

SHEETS: Final = tuple(
    Page(
        path=f"/schedules/{{name:path}}/{path}",
        template=f"schedule_{path.replace('/', '_')}.html",
        view=view,
        role="operator",
    )
    for path, view in {
        "run": run,
        "pause": pause,
        "backfill/preview": backfill_preview,
        "backfill": backfill,
    }.items()
)

"""A schedule being written: what is typed comes back as a sentence, moments and differences.

The form is made once; below it, what it comes to is asked for again while somebody types. Only what
differs is sent when it is saved.
"""

import asyncio
import json
from datetime import datetime
from typing import Any, Final

from duly.app.drafting import Draft, edited_draft, new_draft, texts_of
from duly.clock import now
from duly.model.policies import Policies
from duly.rules import local_time, zone_names
from duly.web.pages.schedule import OWNERS
from duly.web.request import WebRequest
from duly.web.routes import PageRoute, Values, WebServices

BUILT_IN: Final = ("duly.shell", "duly.command", "duly.http")
DST: Final = ("cron", "systemd", "elapsed", "quartz")
CHOICES: Final = {
    "overlap": {
        "skip": "skip it",
        "queue_one": "let the newest wait",
        "queue_all": "let all of them wait",
        "replace": "stop the run before",
        "allow": "run beside it",
    },
    "missed": {"latest": "run once", "all": "run for each", "skip": "leave them out"},
    "late": {"skip": "skip it", "run": "run it anyway", "hurry": "run it before others"},
}


async def edit(_: WebServices, request: WebRequest) -> Values:
    found = await request.app.schedules.aget(request.name("name"))
    return {
        "schedule": found,
        "reacts": found.plan.reaction is not None,
        "texts": texts_of(found.plan),
        "owner_says": OWNERS[found.owner],
        **_choices(),
    }


async def edit_preview(_: WebServices, request: WebRequest) -> Values:
    found = await request.app.schedules.aget(request.name("name"))
    draft = await asyncio.to_thread(edited_draft, found.plan, dict(request.query), now=now())
    return {"schedule": found, **_drafted(draft, request)}


async def new(services: WebServices, request: WebRequest) -> Values:
    """With the defaults filled in, so that nobody has to know them."""
    known = [one.name for one in request.app.registry]
    policies = Policies()
    return {
        "schedule": None,
        "reacts": False,
        "tasks": [*known, *(name for name in BUILT_IN if name not in known)],
        "texts": {
            "zone": services.backend.zone or "",
            "overlap": policies.overlap,
            "missed": policies.missed.policy,
            "at_most": str(policies.missed.at_most),
            "late": policies.late,
            "dst": policies.dst,
            "queue": "default",
            "priority": "0",
        },
        **_choices(),
    }


async def new_preview(services: WebServices, request: WebRequest) -> Values:
    typed, zone = dict(request.query), services.backend.zone
    draft = await asyncio.to_thread(new_draft, typed, zone=zone, now=now())
    return {"schedule": None, **_drafted(draft, request)}


def _drafted(draft: Draft, request: WebRequest) -> dict[str, Any]:
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
    local = local_time(moment, zone)
    return f"{local:%a %Y-%m-%d %H:%M}{f':{local:%S}' if local.second else ''}"


def _choices() -> dict[str, Any]:
    return {"choices": CHOICES, "dst": DST, "zones": sorted(zone_names())}


EDITING: Final = (
    PageRoute(path="/schedules/new", template="schedule_edit.html", view=new, role="operator"),
    PageRoute(
        path="/schedules/new/preview",
        template="schedule_preview.html",
        view=new_preview,
        role="operator",
    ),
    PageRoute(
        path="/schedules/{name:path}/edit/preview",
        template="schedule_preview.html",
        view=edit_preview,
        role="operator",
    ),
    PageRoute(
        path="/schedules/{name:path}/edit",
        template="schedule_edit.html",
        view=edit,
        role="operator",
    ),
)

"""Files of schedules over HTTP: what one would do, the doing, and what is there as one."""

from asyncio import to_thread
from typing import Final

from duly.app.schedule_files import FileDraft, apply, draft, exported
from duly.declare.file_text import read, write
from duly.declare.schedule_file import ScheduleFile
from duly.model.payload import check_text
from duly.rules import Budget
from duly.web.api.endpoint import Endpoint, Nothing
from duly.web.api.schemas.files import Export, PlanView, SheetBody
from duly.web.request import WebRequest

LONGEST: Final = 4 * 1024 * 1024


async def export(request: WebRequest, _: Nothing) -> Export:
    sheet, notes = await request.app.ask(exported)
    return Export(text=write(sheet), notes=list(notes))


async def plan(request: WebRequest, body: SheetBody) -> PlanView:
    return PlanView.of(await _draft(request, body), applied=False)


async def apply_sheet(request: WebRequest, body: SheetBody) -> PlanView:
    made = await _draft(request, body)
    if not made.is_written:
        await request.app.ask(apply, made, tasks=request.app.registry)
    return PlanView.of(made, applied=True)


async def _draft(request: WebRequest, body: SheetBody) -> FileDraft:
    check_text(body.text, "text", longest=LONGEST)
    place = check_text(body.name, "name")
    # Beside the others who ask: a file that is written to be slow is slow for its author alone.
    sheet = await to_thread(_read, body.text, place, request.app.backend.zone)
    return await request.app.ask(
        draft, sheet, file=body.name, prune=body.prune, take_back=body.take_back
    )


def _read(text: str, place: str, zone: str | None) -> ScheduleFile:
    with Budget():  # one for all rules of the file
        return read(text, place=place, zone=zone)


_EXAMPLE: Final = {
    "text": '[schedules.backup]\nrule = "02:30 Europe/Berlin"\nshell = "/srv/backup --full"\n'
}

DECLARING: Final = (
    Endpoint(
        method="GET",
        path="/export",
        role="operator",
        run=export,
        summary="What is in the store and is not code's, as a file",
        tag="declaring",
        answer=Export,
        about="It is a file for its owner: arguments, headers and environments are in it as they "
        "are.",
    ),
    Endpoint(
        method="POST",
        path="/plan",
        role="operator",
        run=plan,
        summary="What applying a file would do, and what has drifted from it",
        tag="declaring",
        body=SheetBody,
        answer=PlanView,
        example=_EXAMPLE,
    ),
    Endpoint(
        method="POST",
        path="/apply",
        role="operator",
        run=apply_sheet,
        summary="Do it: all of it, or nothing",
        tag="declaring",
        body=SheetBody,
        answer=PlanView,
        say=lambda found: "Applied." if found.work else "There was nothing to do.",
        example=_EXAMPLE,
    ),
)

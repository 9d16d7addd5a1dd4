"""Files of schedules over HTTP: plan one, apply it, export the store as one."""

from asyncio import to_thread
from dataclasses import dataclass
from typing import Annotated, Final

from duly.app.schedule_files import FileDraft, PlanView, apply, draft, exported
from duly.files.file_text import read, write
from duly.files.schedule_file import ScheduleFile
from duly.model.payload import check_text
from duly.rules import Budget
from duly.views import filled
from duly.web.api.endpoint import Body, Router, Said, described
from duly.web.request import WebRequest

FILE = "schedules.toml"


class SheetBody(Body, frozen=True):
    """A file of schedules, queues and limits, as `duly apply` reads it."""

    text: Annotated[str, described("TOML.", examples=['[queues.mail]\nrate = "100/m"\n'])]
    name: Annotated[
        str, described("Name under which the applied file is recorded.", min_length=1)
    ] = FILE
    prune: Annotated[bool, described("Remove entries that are no longer in the file.")] = False
    take_back: Annotated[bool, described("Overwrite changes that were made elsewhere.")] = False


class Export(Said, frozen=True):
    """Schedules, queues and limits not declared in code, as a file; arguments are not hidden."""

    text: str
    notes: Annotated[list[str], described("Settings that a file cannot express.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class AppliedPlan(PlanView):
    """The changes that applying a file would make, or has made."""

    applied: bool


LONGEST: Final = 4 * 1024 * 1024
_EXAMPLE: Final = {
    "text": '[schedules.backup]\nrule = "02:30 Europe/Berlin"\nshell = "/srv/backup --full"\n'
}
DECLARING: Final = Router("declaring")


@DECLARING("GET /export", "operator")
async def export(request: WebRequest) -> Export:
    """Export schedules, queues and limits that are not declared in code, as a file.

    Keep the file private: arguments, headers and environments are not hidden.
    """
    sheet, notes = await request.app.ask(exported)
    return Export(text=write(sheet), notes=list(notes))


@DECLARING("POST /plan", "operator", example=_EXAMPLE)
async def plan(request: WebRequest, body: SheetBody) -> AppliedPlan:
    """Plan the changes that applying a file would make, and show drift."""
    return filled(AppliedPlan, (await _draft(request, body)).as_view, applied=False)


@DECLARING(
    "POST /apply",
    "operator",
    say=lambda found: "Applied." if found.work else "Nothing to do.",
    example=_EXAMPLE,
)
async def apply_sheet(request: WebRequest, body: SheetBody) -> AppliedPlan:
    """Apply a file: all changes, or none."""
    made = await _draft(request, body)
    if not made.is_written:
        await request.app.ask(apply, made, tasks=request.app.registry)
    return filled(AppliedPlan, made.as_view, applied=True)


async def _draft(request: WebRequest, body: SheetBody) -> FileDraft:
    check_text(body.text, "text", longest=LONGEST)
    place = check_text(body.name, "name")
    # In a thread: a file whose rules are slow to read must not block other requests.
    sheet = await to_thread(_read, body.text, place, request.app.backend.zone)
    return await request.app.ask(
        draft, sheet, file=body.name, prune=body.prune, take_back=body.take_back
    )


def _read(text: str, place: str, zone: str | None) -> ScheduleFile:
    with Budget():  # one for all rules of the file
        return read(text, place=place, zone=zone)

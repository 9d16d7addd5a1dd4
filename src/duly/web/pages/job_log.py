"""What a job has said: some lines for a page that asks for more, and all of it to be kept."""

from collections.abc import Iterable

from starlette.responses import PlainTextResponse, Response

from duly.model.journal import LogLine
from duly.views.job_page import log_seen, whole_log
from duly.web.request import WebRequest
from duly.web.routes import PageRoute, Values, WebServices
from duly.web.task_text import bare


async def lines(_: WebServices, request: WebRequest) -> Values:
    """Those behind the number ``after``, and whether there will be more."""
    said = request.query.get("after", "0")
    after = int(said) if said.isascii() and said.isdigit() and len(said) < 20 else 0
    found = await request.app.ask(
        log_seen, number_of(request), tenant=request.user.tenant, after=after
    )
    return {"log": found}


async def download(_: WebServices, request: WebRequest) -> Values:
    return {
        "lines": await request.app.ask(whole_log, number_of(request), tenant=request.user.tenant)
    }


def number_of(request: WebRequest) -> int:
    return int(request.name("id"))


class _Text(PageRoute):
    """One that is a file of plain text."""

    async def show(self, services: WebServices, request: WebRequest, _: bytes) -> Response:
        found = await self.view(services, request)
        name = f"job-{number_of(request)}.log"
        headers = {"content-disposition": f'attachment; filename="{name}"'}
        return PlainTextResponse(as_text(found["lines"]), headers=headers)


def as_text(found: Iterable[LogLine]) -> str:
    return "".join(
        f"{line.at.isoformat(timespec='milliseconds')} {bare(line.level):<7} {bare(line.text)}\n"
        for line in found
    )


LOG = PageRoute(path="/jobs/{id:number}/log", template="job_log.html", view=lines, tenants=True)
LOG_TEXT = _Text(path="/jobs/{id:number}/log.txt", template="", view=download, tenants=True)

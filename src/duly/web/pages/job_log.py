"""What a job has said: some lines for a page that asks for more, and all of it to be kept."""

from collections.abc import Iterable

from starlette.responses import PlainTextResponse, Response

from duly.model.journal import LogLine
from duly.views.job_page import log_seen, whole_log
from duly.web.page import Page, Values
from duly.web.request import Ask
from duly.web.shared import House
from duly.web.task_text import bare


async def lines(_: House, ask: Ask) -> Values:
    """Those behind the number ``after``, and whether there will be more."""
    said = ask.query.get("after", "0")
    after = int(said) if said.isascii() and said.isdigit() and len(said) < 20 else 0
    found = await ask.front.ask(log_seen, number_of(ask), tenant=ask.user.tenant, after=after)
    return {"log": found}


async def download(_: House, ask: Ask) -> Values:
    return {"lines": await ask.front.ask(whole_log, number_of(ask), tenant=ask.user.tenant)}


def number_of(ask: Ask) -> int:
    return int(ask.name("id"))


class _Text(Page):
    """One that is a file of plain text."""

    async def show(self, house: House, ask: Ask, _: bytes) -> Response:
        found = await self.view(house, ask)
        name = f"job-{number_of(ask)}.log"
        headers = {"content-disposition": f'attachment; filename="{name}"'}
        return PlainTextResponse(as_text(found["lines"]), headers=headers)


def as_text(found: Iterable[LogLine]) -> str:
    return "".join(
        f"{line.at.isoformat(timespec='milliseconds')} {bare(line.level):<7} {bare(line.text)}\n"
        for line in found
    )


LOG = Page(path="/jobs/{id:number}/log", template="job_log.html", view=lines, tenants=True)
LOG_TEXT = _Text(path="/jobs/{id:number}/log.txt", template="", view=download, tenants=True)

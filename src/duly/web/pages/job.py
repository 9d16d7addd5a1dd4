"""The page of one job: why it is in its state, flow, attempts, log, arguments and result."""

from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from typing import Any, Final

from starlette.responses import PlainTextResponse, Response

from duly.errors import NotFound
from duly.model.filter_language import quoted
from duly.model.states import State
from duly.policy.redaction import hidden_call
from duly.policy.why import about
from duly.views import read_json
from duly.views.flow import Awaits, FlowView, StepView
from duly.views.job import JobDetail, LogLineView, job_detail, job_log, whole_log
from duly.views.tenancy import own_job
from duly.web.request import WebRequest
from duly.web.routes import LIVE, PageRoute, Values, WebRoute, WebServices
from duly.web.svg.attempts import AttemptBar, Kind, draw_attempts
from duly.web.svg.graph import draw_flow
from duly.web.task_text import as_json, bare

MOST_STEPS: Final = 500


async def job(_: WebServices, request: WebRequest) -> Values:
    """Return the values of a job's page; ``job`` is None if it was deleted under a live page."""
    number = number_of(request)
    try:
        seen = await request.app.ask(
            job_detail, number, tenant=request.user.tenant, zone_of=request.zone_of
        )
    except NotFound:
        if LIVE not in request.query:
            raise
        return {"job": None, "number": number}
    life = list(stretches(seen))
    return {
        "job": seen,
        "number": number,
        "zone": seen.zone,
        "drawing": draw_attempts(life, _attempts_in_words(seen)),
        "span": (life[0].start, life[-1].end) if life else None,
        # Omit evidence that the page shows anyway, and the command that shows this job.
        "evidence": [
            one
            for one in seen.why.evidence
            if not one.startswith("attempt ") and one != str(seen.lineage)
        ],
        "commands": [one for one in seen.why.commands if one.what != "see it"],
        "args": as_json(seen.args),
        "result": None if seen.result is None else as_json(seen.result),
        **_flow_values(seen.flow, request),
    }


async def run_again(_: WebServices, request: WebRequest) -> Values:
    """Return the values of the form with the arguments; unchanged hidden values are kept."""
    found = await request.app.ask(own_job, number_of(request), request.user.tenant)
    args = read_json(found.args)
    shown = hidden_call(found.task, args)
    return {"job": found, "args": as_json(shown), "hides": shown != args}


async def answer(_: WebServices, request: WebRequest) -> Values:
    """Return the values of the form for the payload of the event that a step waits for."""
    found = await request.app.ask(own_job, number_of(request), request.user.tenant)
    awaits = Awaits.of(found)
    return {"job": found, "awaits": awaits, "name": awaits.event if awaits else found.task}


async def log(_: WebServices, request: WebRequest) -> Values:
    """Return the log lines after the number ``after``, and whether more may follow."""
    said = request.query.get("after", "0")
    after = int(said) if said.isascii() and said.isdigit() and len(said) < 20 else 0
    return {
        "log": await request.app.ask(
            job_log, number_of(request), tenant=request.user.tenant, after=after
        )
    }


async def download(_: WebServices, request: WebRequest, __: bytes) -> Response:
    """Return the whole log as a plain text file."""
    number = number_of(request)
    lines = await request.app.ask(whole_log, number, tenant=request.user.tenant)
    headers = {"content-disposition": f'attachment; filename="job-{number}.log"'}
    return PlainTextResponse(log_text(lines), headers=headers)


def number_of(request: WebRequest) -> int:
    return int(request.name("id"))


def log_text(lines: Sequence[LogLineView]) -> str:
    return "".join(
        f"{line.at.isoformat(timespec='milliseconds')} {bare(line.level):<7} {bare(line.text)}\n"
        for line in lines
    )


def stretches(seen: JobDetail) -> Iterator[AttemptBar]:
    """Yield a job's waits and attempts, from when it could run to its end, now or next attempt."""
    ran = seen.executions
    at = max(seen.created_at, seen.due_at)
    if ran:
        at = min(at, ran[0].started_at)
    for one in ran:
        started = one.started_at
        if started > at:
            kind: Kind = "pause" if one.number > 1 else "waiting"
            yield AttemptBar(
                kind=kind, start=at, end=started, title=f"waited {about(started - at)}"
            )
        at = started + one.length
        title = f"attempt {one.number}: {one.outcome} after {about(one.length)}"
        yield AttemptBar(kind=_kind(one.state), start=started, end=at, title=title)
    end = seen.ended_at or max(seen.ready_at, seen.created_at) + (seen.length or timedelta())
    if end > at and seen.state is not State.RUNNING:
        kind = "pause" if ran and seen.ended_at is None else "waiting"
        word = "waits" if seen.ended_at is None else "waited"
        yield AttemptBar(kind=kind, start=at, end=end, title=f"{word} {about(end - at)}")


def _kind(state: str) -> Kind:
    return "running" if state == "running" else "succeeded" if state == "succeeded" else "failed"


def _attempts_in_words(seen: JobDetail) -> str:
    each = (f"attempt {one.number} {one.outcome}" for one in seen.executions)
    return ", ".join(each) or "not begun yet"


def _flow_values(flow: FlowView | None, request: WebRequest) -> dict[str, Any]:
    if flow is None:
        return {}
    link = _links(flow, request)
    return {"graph": draw_flow(flow, link), "steps": flow.items[:MOST_STEPS], "step_link": link}


def _links(flow: FlowView, request: WebRequest) -> Callable[[StepView], str | None]:
    """Return a function for the URL of a step: its job, or the list of its jobs if it is a map."""

    def link(step: StepView) -> str | None:
        if step.job_id is None:
            return None
        if not step.is_map:
            return request.at(f"/jobs/{step.job_id}")
        return request.at("/jobs", filter=f"flow:{flow.id} task:{quoted(step.task)}")

    return link


JOB: Final = (
    PageRoute(path="/jobs/{id:number}", template="job.html", view=job, tenants=True),
    PageRoute(
        path="/jobs/{id:number}/run-again",
        template="job_run_again.html",
        view=run_again,
        role="operator",
        tenants=True,
    ),
    PageRoute(
        path="/jobs/{id:number}/answer",
        template="job_answer.html",
        view=answer,
        role="operator",
        tenants=True,
    ),
    PageRoute(path="/jobs/{id:number}/log", template="job_log.html", view=log, tenants=True),
)
LOG_FILE: Final = WebRoute(
    method="GET",
    path="/jobs/{id:number}/log.txt",
    role="viewer",
    handler=download,
    tenants=True,
)

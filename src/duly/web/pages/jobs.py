"""The pages of jobs: a filtered list with failures by error and bulk actions; and one job.

The page of one job says why it is in its state, and shows its flow, attempts, log and result.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import timedelta
from typing import Any, Final, get_args

from starlette.responses import PlainTextResponse, RedirectResponse, Response

from duly.durations import about
from duly.errors import DulyError, InvalidValue, NotFound
from duly.model.job_filter import HIGHEST_NUMBER, WORDS, Filter, parse_filter, quoted
from duly.model.schedule_filter import ScheduleFilter
from duly.model.states import ENDED, State
from duly.policy.redaction import hidden_call
from duly.views import read_json
from duly.views.access import own_job
from duly.views.flow import Awaits, FlowView, StepView
from duly.views.job import (
    Action,
    JobDetail,
    LogLineView,
    failure_groups,
    job_detail,
    job_list,
    job_log,
    known_names,
    matching,
    whole_log,
)
from duly.views.schedules import matching_schedules
from duly.web.rendering import as_json, bare
from duly.web.request import WebRequest
from duly.web.routes import LIVE, PageRouter, Values, WebServices
from duly.web.svg.gantt import AttemptBar, Kind, draw_attempts
from duly.web.svg.graph import draw_flow

JOBS: Final = PageRouter(tenants=True)
LIMIT: Final = 50
MOST_CHOSEN: Final = 1_000
MOST_SCHEDULES: Final = 8
QUICK: Final = (
    ("all", ""),
    ("running", "state:running"),
    ("failed", "state:failed"),
    ("waiting", f"state:{State.READY},{State.BLOCKED}"),
    ("scheduled", "state:scheduled"),
    ("ended", f"state:{','.join(ENDED)}"),
)


@JOBS.page("/jobs", "jobs.html")
async def jobs(request: WebRequest) -> Values:
    """List the jobs that match; an invalid filter is reported beside its box."""
    words = request.query.get("filter", "").strip()
    values: dict[str, Any] = {
        "words": words,
        "quick": QUICK,
        "grouped": request.query.get("group") == "error",
        "completions": () if LIVE in request.query else await _completions(request),
        "said": "",
        "rows": (),
        "schedules": (),
        "groups": (),
        "after": None,
        "searched_to": None,
        "is_full": False,
        "is_failed": False,
    }
    try:
        wanted = parse_filter(words)
        values |= {
            "is_failed": not wanted.states or State.FAILED in wanted.states,
            "schedules": await _named(request, wanted),
        }
        return values | await _found(request, wanted)
    except DulyError as error:
        return values | {"said": str(error)}


@JOBS("GET /search", "viewer")
async def search(_: WebServices, request: WebRequest, __: bytes) -> Response:
    """Open the job whose number was typed; other words are a filter for the list of jobs."""
    words = request.query.get("filter", "").strip()
    is_job = await _is_job(request, words)
    found = request.at(f"/jobs/{words}") if is_job else request.at("/jobs", filter=words)
    return RedirectResponse(found, status_code=303)


@JOBS.page("/jobs/bulk", "job_bulk.html", "operator")
async def bulk(request: WebRequest) -> Values:
    """Return the values of the confirmation of a bulk action, with the number of jobs."""
    action = _action(request.query.get("do", ""))
    chosen = _numbers(request.query.get("ids", ""))
    words = request.query.get("filter", "")
    found = None
    if not chosen:
        found = await request.app.ask_own(matching, parse_filter(words), action)
    return {
        "action": action,
        "chosen": chosen,
        "number": len(chosen),
        "words": words,
        "matching": found,
    }


async def _is_job(request: WebRequest, words: str) -> bool:
    if not (words.isascii() and words.isdigit() and len(words) <= len(str(HIGHEST_NUMBER))):
        return False
    try:
        await request.app.ask_own(own_job, int(words))
    except NotFound:
        return False
    return True


async def _named(request: WebRequest, wanted: Filter) -> list[str]:
    """Return the names of matching schedules, if the filter is only search text."""
    if not wanted.texts or wanted != Filter(texts=wanted.texts) or request.user.tenant is not None:
        return []
    texts = ScheduleFilter(texts=wanted.texts)
    found = await request.app.ask(matching_schedules, texts, after="", limit=MOST_SCHEDULES)
    return [schedule.plan.name for schedule in found]


async def _found(request: WebRequest, wanted: Filter) -> dict[str, Any]:
    if request.query.get("group") == "error":
        return {"groups": await request.app.ask_own(failure_groups, wanted)}
    found = await request.app.ask_own(
        job_list, wanted, after=request.query.get("after") or None, limit=LIMIT
    )
    return {
        "rows": found.items,
        "after": found.next,
        "searched_to": found.searched_to,
        "is_full": len(found.items) == LIMIT,
    }


async def _completions(request: WebRequest) -> list[str]:
    """Return the filter words with their known values; the word alone if none are known."""
    known: dict[str, Iterable[str]] = {"state": State, "since": ("15m", "2h", "1d")}
    known |= await request.app.ask_own(known_names)
    return [
        f"{word}:{'' if name is None else quoted(name)}"
        for word in WORDS
        for name in known.get(word, (None,))
    ]


def _action(name: str) -> Action:
    actions: tuple[Action, ...] = get_args(Action)
    for action in actions:
        if name == action:
            return action
    raise InvalidValue(f"do={name}: choose one of {', '.join(actions)}")


def _numbers(text: str) -> list[int]:
    numbers = [int(one) for one in text.split(",") if one.isascii() and one.isdigit()]
    return list(dict.fromkeys(numbers))[:MOST_CHOSEN]


MOST_STEPS: Final = 500


@JOBS.page("/jobs/{id:number}", "job.html")
async def job(request: WebRequest, number: int) -> Values:
    """Return the values of a job's page; ``job`` is None if it was deleted under a live page."""
    try:
        seen = await request.app.ask_own(job_detail, number, zone_of=request.zone_of)
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
        # Without the command that shows this job.
        "commands": [one for one in seen.why.commands if one.what != "see it"],
        "args": as_json(seen.args),
        "result": None if seen.result is None else as_json(seen.result),
        **_flow_values(seen.flow, request),
    }


@JOBS.page("/jobs/{id:number}/run-again", "job_run_again.html", "operator")
async def run_again(request: WebRequest, number: int) -> Values:
    """Return the values of the form with the arguments; unchanged hidden values are kept."""
    found = await request.app.ask_own(own_job, number)
    args = read_json(found.args)
    shown = hidden_call(found.task, args)
    return {"job": found, "args": as_json(shown), "hides": shown != args}


@JOBS.page("/jobs/{id:number}/answer", "job_answer.html", "operator")
async def answer(request: WebRequest, number: int) -> Values:
    """Return the values of the form for the payload of the event that a step waits for."""
    found = await request.app.ask_own(own_job, number)
    awaits = Awaits.of(found)
    return {"job": found, "awaits": awaits, "name": awaits.event if awaits else found.task}


@JOBS.page("/jobs/{id:number}/log", "job_log.html")
async def log(request: WebRequest, number: int) -> Values:
    """Return the log lines after the number ``after``, and whether more may follow."""
    text = request.query.get("after", "0")
    after = int(text) if text.isascii() and text.isdigit() and len(text) < 20 else 0
    return {"log": await request.app.ask_own(job_log, number, after=after)}


@JOBS("GET /jobs/{id:number}/log.txt", "viewer")
async def download(_: WebServices, request: WebRequest, __: bytes) -> Response:
    """Return the whole log as a plain text file."""
    number = int(request.name("id"))
    lines = await request.app.ask_own(whole_log, number)
    headers = {"content-disposition": f'attachment; filename="job-{number}.log"'}
    return PlainTextResponse(log_text(lines), headers=headers)


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

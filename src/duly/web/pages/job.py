"""One job: what became of it and why, its attempts, what went in, what came out, what it said."""

import json
from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any

from duly.errors import NotFound
from duly.model.job import Job
from duly.model.states import State
from duly.policy.redaction import hidden, hidden_call
from duly.policy.why import about
from duly.views.job_list import STATES, length_of
from duly.views.job_page import JobSeen, job_page
from duly.views.tenancy import own_job
from duly.web.pages.flow import flow_values
from duly.web.pages.job_log import number_of
from duly.web.request import WebRequest
from duly.web.routes import LIVE, PageRoute, Values, WebServices
from duly.web.svg.attempts import AttemptBar, Kind, draw_attempts
from duly.web.task_text import as_json


async def job(_: WebServices, request: WebRequest) -> Values:
    """One that is forgotten while somebody looks on is said to be gone."""
    number = number_of(request)
    try:
        seen = await request.app.ask(
            job_page, number, tenant=request.user.tenant, zone_of=request.zone_of
        )
    except NotFound:
        if LIVE not in request.query:
            raise
        return {"seen": None, "number": number}
    life = list(stretches(seen))
    return {
        "seen": seen,
        "number": number,
        "job": seen.job,
        "zone": seen.zone,
        "can": {deed: seen.job.state in states for deed, states in STATES.items()},
        "length": length_of(seen.job, seen.now),
        "drawing": draw_attempts(life, _told(seen)),
        "span": (life[0].start, life[-1].end) if life else None,
        # What the page shows itself, and itself, need not be said.
        "evidence": [
            one
            for one in seen.answer.evidence
            if not one.startswith("attempt ") and one != str(seen.lineage)
        ],
        "commands": [one for one in seen.answer.commands if one.what != "see it"],
        "tries": list(tries(seen)),
        "args": arguments(seen.job),
        "result": _result(seen.job),
        "facts": facts(seen.job),
        **flow_values(seen.flow, request),
    }


async def run_again(_: WebServices, request: WebRequest) -> Values:
    """A form with the arguments. What is hidden in them stays if nothing is changed."""
    found = await request.app.ask(own_job, number_of(request), request.user.tenant)
    args = arguments(found)
    return {"job": found, "args": args, "hides": args != as_json(_read(found.args))}


def arguments(job: Job) -> str:
    return as_json(hidden_call(job.task, _read(job.args)))


def tries(seen: JobSeen) -> Iterator[Mapping[str, Any]]:
    """All attempts; the one that ended the job well, or may, is not among those that are kept."""
    for one in seen.attempts:
        yield {
            "number": one.number,
            "started_at": one.started_at,
            "took": one.ended_at - one.started_at,
            "worker": seen.worker(one.worker),
            "outcome": one.outcome,
            "state": "failed",
            "reason": one.reason,
            "error": one.error,
        }
    job = seen.job
    if job.claimed_at is not None and job.state in (State.RUNNING, State.SUCCEEDED):
        yield {
            "number": max([job.attempt, *(one.number + 1 for one in seen.attempts)]),
            "started_at": job.claimed_at,
            "took": length_of(job, seen.now),
            "worker": seen.worker(job.worker),
            "outcome": job.state.value,
            "state": job.state.value,
            "reason": "",
            "error": None,
        }


def stretches(seen: JobSeen) -> Iterator[AttemptBar]:
    """From the moment that it could run to its end, or to now, or to when it is tried again."""
    job, ran = seen.job, list(tries(seen))
    at = max(job.created_at, job.due_at)
    if ran:
        at = min(at, ran[0]["started_at"])
    for one in ran:
        started, took = one["started_at"], one["took"] or timedelta()
        if started > at:
            kind: Kind = "pause" if one["number"] > 1 else "waiting"
            yield AttemptBar(
                kind=kind, start=at, end=started, title=f"waited {about(started - at)}"
            )
        at = started + took
        title = f"attempt {one['number']}: {one['outcome']} after {about(took)}"
        yield AttemptBar(kind=one["state"], start=started, end=at, title=title)
    end = job.ended_at or max(job.ready_at, seen.now)
    if end > at and job.state is not State.RUNNING:
        kind = "pause" if ran and job.ended_at is None else "waiting"
        word = "waits" if job.ended_at is None else "waited"
        yield AttemptBar(kind=kind, start=at, end=end, title=f"{word} {about(end - at)}")


def facts(job: Job) -> list[tuple[str, str]]:
    """What has a name and a short value; what is empty is left out."""
    timeout = job.terms.timeout
    said = [
        ("task", job.task),
        ("key", job.key or ""),
        ("tenant", job.tenant),
        ("tags", ", ".join(job.tags)),
        ("priority", str(job.priority) if job.priority else ""),
        ("submitter", job.submitter),
        ("limits", ", ".join(lane.name for lane in job.limits)),
        ("waits for" if job.waits == "event" else "waits at", job.waits_for or ""),
        ("needs", ", ".join(f"{name}={amount}" for name, amount in job.needs.items())),
        ("timeout", "" if timeout is None else about(timeout)),
    ]
    return [(name, value) for name, value in said if value]


def _told(seen: JobSeen) -> str:
    """The drawing in words."""
    each = (f"attempt {one['number']} {one['outcome']}" for one in tries(seen))
    return ", ".join(each) or "not begun yet"


def _result(job: Job) -> str | None:
    return None if job.result in (None, "null") else as_json(hidden(_read(job.result)))


def _read(text: str | None) -> Any:  # noqa: ANN401 - JSON is any of its types
    try:
        return None if text is None else json.loads(text)
    except (ValueError, RecursionError):
        return text


JOB = PageRoute(path="/jobs/{id:number}", template="job.html", view=job, tenants=True)
RUN_AGAIN = PageRoute(
    path="/jobs/{id:number}/run-again",
    template="job_run_again.html",
    view=run_again,
    role="operator",
    tenants=True,
)

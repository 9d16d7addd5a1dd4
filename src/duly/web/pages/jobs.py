"""The jobs page: a filtered list, failures grouped by error, and bulk actions."""

from collections.abc import Iterable
from typing import Any, Final, get_args

from starlette.responses import RedirectResponse, Response

from duly.errors import DulyError, InvalidValue, NotFound
from duly.model.filter_language import quoted
from duly.model.job_filter import HIGHEST_NUMBER, WORDS, Filter, parse_filter
from duly.model.schedule_filter import ScheduleFilter
from duly.model.states import ENDED, State
from duly.views.job import Action, failure_groups, job_list, known_names, matching
from duly.views.schedules import meant
from duly.views.tenancy import own_job
from duly.web.request import WebRequest
from duly.web.routes import LIVE, PageRoute, Values, WebRoute, WebServices

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


async def jobs(_: WebServices, request: WebRequest) -> Values:
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
            "is_failed": _may_have_failed(wanted),
            "schedules": await _named(request, wanted),
        }
        return values | await _found(request, wanted)
    except DulyError as error:
        return values | {"said": str(error)}


async def search(_: WebServices, request: WebRequest, __: bytes) -> Response:
    """Open the job whose number was typed; other words are a filter for the list of jobs."""
    words = request.query.get("filter", "").strip()
    is_job = await _is_job(request, words)
    found = request.at(f"/jobs/{words}") if is_job else request.at("/jobs", filter=words)
    return RedirectResponse(found, status_code=303)


async def bulk(_: WebServices, request: WebRequest) -> Values:
    """Return the values of the confirmation of a bulk action, with the number of jobs."""
    action = _action(request.query.get("do", ""))
    chosen = _numbers(request.query.get("ids", ""))
    words = request.query.get("filter", "")
    found = None
    if not chosen:
        tenant = request.user.tenant
        found = await request.app.ask(matching, parse_filter(words), action, tenant=tenant)
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
        await request.app.ask(own_job, int(words), request.user.tenant)
    except NotFound:
        return False
    return True


async def _named(request: WebRequest, wanted: Filter) -> list[str]:
    """Return the names of matching schedules, if the filter is only search text."""
    if not wanted.texts or wanted != Filter(texts=wanted.texts) or request.user.tenant is not None:
        return []
    texts = ScheduleFilter(texts=wanted.texts)
    found = await request.app.ask(meant, texts, after="", limit=MOST_SCHEDULES)
    return [schedule.plan.name for schedule in found]


async def _found(request: WebRequest, wanted: Filter) -> dict[str, Any]:
    tenant = request.user.tenant
    if request.query.get("group") == "error":
        return {"groups": await request.app.ask(failure_groups, wanted, tenant=tenant)}
    found = await request.app.ask(
        job_list, wanted, tenant=tenant, after=request.query.get("after") or None, limit=LIMIT
    )
    return {
        "rows": found.items,
        "after": found.next,
        "searched_to": found.searched_to,
        "is_full": len(found.items) == LIMIT,
    }


def _may_have_failed(wanted: Filter) -> bool:
    return not wanted.states or State.FAILED in wanted.states


async def _completions(request: WebRequest) -> list[str]:
    """Return the filter words with their known values; the word alone if none are known."""
    known: dict[str, Iterable[str]] = {"state": State, "since": ("15m", "2h", "1d")}
    known |= await request.app.ask(known_names, tenant=request.user.tenant)
    return [
        f"{word}:{'' if name is None else quoted(name)}"
        for word in WORDS
        for name in known.get(word, (None,))
    ]


def _action(said: str) -> Action:
    actions: tuple[Action, ...] = get_args(Action)
    for action in actions:
        if said == action:
            return action
    raise InvalidValue(f"do={said}: choose one of {', '.join(actions)}")


def _numbers(said: str) -> list[int]:
    numbers = [int(one) for one in said.split(",") if one.isascii() and one.isdigit()]
    return list(dict.fromkeys(numbers))[:MOST_CHOSEN]


SEARCH = WebRoute(method="GET", path="/search", role="viewer", handler=search, tenants=True)
JOBS = PageRoute(path="/jobs", template="jobs.html", view=jobs, tenants=True)
BULK = PageRoute(
    path="/jobs/bulk", template="job_bulk.html", view=bulk, role="operator", tenants=True
)

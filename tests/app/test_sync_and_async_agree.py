"""Called or awaited, a verb does the same and answers the same.

Each is tried in two sandboxes where it is the same moment of the same day, and the same has
happened before: one time it is called, the other time its twin is awaited.
"""

import asyncio
import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from duly import Duly, Limit, Step
from duly.app.access import NewSecret
from duly.app.job import Job
from duly.app.jobs import JobPage
from duly.errors import DulyError
from duly.testing import Sandbox
from tests.app.test_sync_and_async import PAIRS, twin_of

NOON = datetime(2027, 1, 3, 12, tzinfo=UTC)
NOT_HERE = {
    "Duly.close": "ends the store of the app itself, which is not the sandbox's",
    "Running.__enter__": "works on the machine's clock: see test_running",
    "Running.__exit__": "works on the machine's clock: see test_running",
    "Sandbox.__enter__": "both are entered by whatever is tried here",
    "Sandbox.__exit__": "both are left by whatever is tried here",
    "Enqueueable.enqueue": "tried as a Task, as an AsyncTask and as a Flow",
    "Enqueueable.cancel": "tried as a Task, as an AsyncTask and as a Flow",
}


@dataclass(frozen=True)
class Stage:
    """An app in its sandbox, with a bit of everything."""

    app: Duly
    box: Sandbox
    jobs: Sequence[Job[Any]]  # one that succeeded, one that failed, one that waits
    event: str  # to which something has reacted; another is there that was before it

    @property
    def tasks(self) -> Any:  # noqa: ANN401 - as their authors hold them
        return _TASKS[self.app]


_TASKS: dict[Duly, Any] = {}


class Tasks:
    def __init__(self, app: Duly) -> None:
        @app.task
        def work(number: int = 1) -> int:
            app.current().log.info("working")
            return number

        self.there = app.external("shop.add", target="main")

        @app.task
        async def awork(number: int = 1) -> int:
            return number

        @app.task(retry=None)
        def fail() -> None:
            raise ValueError("no")

        @app.task(limits=[Limit("crm", concurrency=1)])
        def call() -> None: ...

        @app.flow
        def twice(number: int = 1) -> Step[int]:
            return work.step(work.step(number).result)

        self.work, self.awork, self.fail, self.call = work, awork, fail, call
        self.twice = twice


@dataclass(frozen=True)
class Try:
    """A verb of what is found on the stage, and what is said to it."""

    verb: str
    whose: Callable[[Stage], Any]
    said: Callable[[Stage], Sequence[Any]] = lambda _: ()
    words: Callable[[Stage], dict[str, Any]] = lambda _: {}

    @property
    def name(self) -> str:
        return self.verb.partition(".")[2]


def schedules(verb: str, *said: Any, **words: Any) -> Try:
    return Try(f"Schedules.{verb}", lambda on: on.app.schedules, lambda _: said, lambda _: words)


def jobs(verb: str, *said: Any, **words: Any) -> Try:
    return Try(f"Jobs.{verb}", lambda on: on.app.jobs, lambda _: said, lambda _: words)


def job(verb: str, which: int, **words: Any) -> Try:
    return Try(f"Job.{verb}", lambda on: on.jobs[which], words=lambda _: words)


def noun(verb: str, *said: Any, **words: Any) -> Try:
    """``Queues.pause`` is a verb of ``duly.queues``."""
    attribute = verb.partition(".")[0].lower()
    return Try(verb, lambda on: getattr(on.app, attribute), lambda _: said, lambda _: words)


DONE, FAILED, WAITING = range(3)
TRIES = [
    Try("Duly.enqueue_many", lambda on: on.app, lambda on: [[on.tasks.work.bind(2)]]),
    Try("Duly.emit", lambda on: on.app, lambda _: ["invoice.paid", {"number": 8}]),
    Try("Duly.emit", lambda on: on.app, lambda _: ["invoice paid"]),
    Try("Task.enqueue", lambda on: on.tasks.work, lambda _: [7]),
    Try("Task.cancel", lambda on: on.tasks.work, words=lambda _: {"key": "k"}),
    Try("AsyncTask.enqueue", lambda on: on.tasks.awork, lambda _: [7]),
    Try("AsyncTask.cancel", lambda on: on.tasks.awork, words=lambda _: {"key": "k"}),
    Try("Flow.enqueue", lambda on: on.tasks.twice, lambda _: [7]),
    Try("Flow.cancel", lambda on: on.tasks.twice, words=lambda _: {"key": "k"}),
    Try("Call.enqueue", lambda on: on.tasks.work.using(run_after="1h").bind(9)),
    Try("Sandbox.travel", lambda on: on.box, lambda _: ["2h"]),
    Try("Sandbox.run", lambda on: on.box),
    job("refresh", FAILED),
    job("result", DONE),
    job("result", FAILED),
    job("retry", FAILED),
    job("retry", DONE),
    job("cancel", WAITING, reason="enough"),
    job("logs", DONE),
    job("progress", DONE),
    jobs("get", 1_000),
    jobs("get", 9),
    jobs("list", "state:failed,succeeded"),
    jobs("list", "stat:failed"),
    jobs("page", "state:failed,succeeded", limit=1),
    jobs("page", after="nowhere"),
    jobs("failures", "task:f*"),
    jobs("count", "task:work"),
    jobs("cancel", "task:work", reason="enough"),
    jobs("remove", "task:fail"),
    jobs("retry", "task:fail", first=1),
    jobs("why", 1_001),
    jobs("report", 1_001, result=5),
    Try("ExternalTask.enqueue", lambda on: on.tasks.there, lambda _: [7]),
    Try("ExternalTask.cancel", lambda on: on.tasks.there, words=lambda _: {"key": "k"}),
    Try(
        "Schedules.add",
        lambda on: on.app.schedules,
        lambda on: ["02:00 Europe/Berlin", on.tasks.work],
        lambda _: {"name": "nightly", "start_within": "4h"},
    ),
    schedules("edit", "hourly", rule="every 2h", late="run"),
    schedules("remove", "hourly"),
    schedules("remove", "hourlies"),
    schedules("pause", "hourly", until="3h", note="the relay is down"),
    schedules("resume", "hourly"),
    schedules("skip_next", "hourly", count=2),
    schedules("unskip", "hourly"),
    schedules("run", "hourly"),
    schedules("backfill", "hourly", NOON - timedelta(hours=3), NOON, dry_run=True),
    schedules("get", "hourly"),
    schedules("list", "state:active task:work"),
    schedules("history", "hourly", limit=5),
    schedules("preview", "hourly", count=3),
    schedules("why", "hourly"),
    noun("Events.list", "invoice.*", limit=5),
    noun("Events.page", after="nowhere"),
    noun("Events.page", limit=1),
    Try("Events.get", lambda on: on.app.events, lambda on: [on.event]),
    noun("Events.get", "none"),
    Try("Events.reactions", lambda on: on.app.events, lambda on: [on.event]),
    noun("Events.replay", "reaction", NOON - timedelta(hours=1)),
    noun("Events.replay", "hourly", NOON - timedelta(hours=1), NOON, dry_run=True),
    noun("Queues.list"),
    noun("Queues.pause", "mail", note="full"),
    noun("Queues.resume", "mail"),
    noun("Queues.set", "mail", concurrency=2, rate="5/s"),
    noun("Limits.list"),
    noun("Limits.set", "crm", concurrency=2),
    noun("Limits.reset", "crm"),
    noun("Workers.list"),
    noun("Workers.drain", "nobody"),
    noun("Workers.resume", "nobody"),
    noun("Workers.stop", "nobody"),
    noun("Workers.scale", "nobody", concurrency=4),
    noun("Tokens.list"),
    noun("Tokens.create", "ci", role="viewer"),
    noun("Tokens.revoke", "nobody"),
    noun("Audit.list"),
    noun("Audit.verify"),
]


def test_no_pair_is_left_out_without_a_reason() -> None:
    tried, there = {one.verb for one in TRIES}, {pair.verb for pair in PAIRS}
    assert there - tried == set(NOT_HERE)
    assert tried <= there


@pytest.mark.parametrize("one", TRIES, ids=[f"{at}-{one.verb}" for at, one in enumerate(TRIES)])
def test_called_and_awaited_it_answers_the_same(one: Try) -> None:
    with staged() as stage:
        called = told(lambda: _called(stage, one))
        left = everything(stage)
    with staged() as stage:
        awaited = told(lambda: asyncio.run(_awaited(stage, one)))
        assert awaited == called
        assert everything(stage) == left


def test_what_is_compared_can_differ() -> None:
    """A comparison of nothing with nothing would be content with everything."""
    with staged() as stage:
        before = everything(stage)
        stage.app.schedules.pause("hourly")
        assert everything(stage) != before
        assert told(lambda: stage.app.jobs.get(9)) != told(lambda: stage.app.jobs.get(8))


class staged:  # noqa: N801 - used as a function
    def __enter__(self) -> Stage:
        app = Duly()
        tasks = _TASKS[app] = Tasks(app)
        self._box = box = Sandbox(app, now=NOON).__enter__()
        app.schedules.add("every 1h", tasks.work, name="hourly", overlap="allow")
        app.queues.set("mail", concurrency=1)
        ended = [tasks.work.enqueue(5), tasks.fail.enqueue(), tasks.call.enqueue()]
        box.run()
        waiting = tasks.work.using(run_after="2h", key="k").enqueue(6)
        app.emit("invoice.paid", {"number": 6})
        box.travel("1s")
        app.schedules.add("on invoice.*", tasks.work, name="reaction")
        event = app.emit("invoice.paid", {"number": 7})
        box.run()
        return Stage(app, box, [*ended[:2], waiting], event)

    def __exit__(self, *ended: object) -> None:
        self._box.__exit__(None, None, None)
        _TASKS.clear()


def _called(stage: Stage, one: Try) -> Any:  # noqa: ANN401
    answer = getattr(one.whose(stage), one.name)(*one.said(stage), **one.words(stage))
    return list(answer) if isinstance(answer, Iterator) else answer


async def _awaited(stage: Stage, one: Try) -> Any:  # noqa: ANN401
    twin = getattr(one.whose(stage), twin_of(one.name))
    answer = twin(*one.said(stage), **one.words(stage))
    return [line async for line in answer] if inspect.isasyncgen(answer) else await answer


def told(work: Callable[[], Any]) -> object:
    """Its answer, or how it refuses, as something that can be compared."""
    try:
        return shown(work())
    except DulyError as error:
        return type(error), str(error)


def shown(answer: Any) -> object:  # noqa: ANN401
    match answer:
        case Job():
            seen = (answer.state, answer.reason, answer.due_at, answer.title, answer.error)
            return answer.id, answer.task, *seen
        case JobPage():
            return shown(answer.jobs), answer.after, answer.searched_to
        case NewSecret():  # the secret is another one each time
            return answer.token
        case [*parts]:
            return [shown(each) for each in parts]
        case _:
            return answer


def everything(stage: Stage) -> object:
    """What there is afterwards."""
    app = stage.app
    found = (stage.box.jobs(), app.schedules.list(), app.queues.list(), app.limits.list())
    said = (app.tokens.list(), app.audit.list(), app.events.list())
    return [shown(list(each)) for each in (*found, *said)]

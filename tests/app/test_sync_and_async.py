"""Whatever reaches the store can be called, and can be awaited: two verbs, one meaning.

No class is named here to be looked at: every one of the front door is found. What has no twin, or
differs from it, is named, and with its reason.
"""

import importlib
import inspect
import pkgutil
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from types import FunctionType
from typing import Any, get_args, get_origin

import pytest

import duly.app
import duly.registry
import duly.runtime
import duly.testing.sandbox
from duly import Duly

# Parts of the machine: nobody is handed one.
INSIDE = {
    "Enqueuer": "whoever is awaited needs no word about its twin, so the two take other words",
    "SandboxStore": "the store of the sandbox, as a LazyStore",
    "NodeLifecycle": "runs on a loop: whoever has none is given one by Running",
    "WorkSession": "runs on a loop: whoever has none is given one by Sandbox.run",
    "Node": "services that run on a loop",
    "Engine": "called by a worker, on its loop",
    "HttpWorkers": "of the web server, which has a loop",
    "WebBackend": "of the web server, which has a loop",
    "UserApp": "of the web server, which has a loop",
    "StoreProxy": "the store itself, and that is always awaited",
    "LocalExecutor": "an executor of the sandbox, on its loop",
    "CallersThread": "an executor of the sandbox, for its own thread",
}
NO_TWIN = {
    "Duly.current": "asks nobody: it is known in the process",
    "Duly.run": "blocks until a signal; on a loop one says `async with duly.running()`",
    "Duly.running": "makes what is entered with `with` or with `async with`",
    "Duly.lifespan": "is what frameworks with a loop enter",
    "Duly.asgi": "asks nobody: makes an application",
    "Duly.wsgi": "makes an application",
    "Duly.external": "asks nobody: makes a task",
    "ExternalTask.using": "asks nobody: makes another task",
    "ExternalTask.bind": "asks nobody: makes a call",
    "Duly.announcement": "asks nobody: it is what the code declares",
    "Duly.wait_for": "asks nobody: makes a step",
    "Task.using": "asks nobody: makes another task",
    "Task.bind": "asks nobody: makes a call",
    "AsyncTask.using": "asks nobody: makes another task",
    "AsyncTask.bind": "asks nobody: makes a call",
    "Flow.using": "asks nobody: makes another flow",
    "Flow.bind": "asks nobody: makes a call",
    **{
        f"{kind}.{verb}": "asks nobody: makes a step"
        for kind in ("Task", "AsyncTask", "ExternalTask", "Flow", "Enqueueable")
        for verb in ("step", "map")
    },
    "Enqueueable.using": "asks nobody: makes another task",
    "Enqueueable.bind": "asks nobody: makes a call",
    "Call.step": "asks nobody: makes a step",
    "Call.asked": "asks nobody: it is what the store would be asked",
    "Sandbox.jobs": "takes no time, and may be called on a loop",
    "Sandbox.fires": "takes no time, and may be called on a loop",
    "Sandbox.assert_enqueued": "takes no time, and may be called on a loop",
    "Sandbox.assert_not_enqueued": "takes no time, and may be called on a loop",
}
OWN_WORDS = {
    "Duly.aclose": "closes what belongs to the loop, and close what belongs to none",
    "Running.__aexit__": "it is the one that does it; __exit__ has it done on a loop of its own",
    "Sandbox.arun": "plain functions run in threads there, and that can be noticed",
}


@dataclass(frozen=True)
class Pair:
    kind: type
    name: str
    twin: str

    @property
    def verb(self) -> str:
        return f"{self.kind.__name__}.{self.name}"

    def functions(self) -> tuple[Callable[..., Any], Callable[..., Any]]:
        return getattr(self.kind, self.name), getattr(self.kind, self.twin)


def verbs_of(kind: type) -> dict[str, FunctionType]:
    """With those of what it is made from; ``__call__`` is the function of a task, and no verb."""
    entered = ("__enter__", "__exit__", "__aenter__", "__aexit__")
    return {
        name: verb
        for name, verb in inspect.getmembers(kind, inspect.isfunction)
        if not name.startswith("_") or name in entered
    }


def twin_of(name: str) -> str:
    return name.replace("__", "__a", 1) if name.startswith("__") else f"a{name}"


def pairs_of(kind: type) -> list[Pair]:
    verbs = verbs_of(kind)
    return [Pair(kind, name, twin_of(name)) for name in verbs if twin_of(name) in verbs]


def classes() -> list[type]:
    """Those that have a verb which is awaited, wherever they stand."""
    rooms = (duly.app, duly.registry, duly.runtime, duly.testing.sandbox)
    modules = [
        *rooms,
        *(
            importlib.import_module(module.name)
            for room in rooms
            for module in pkgutil.walk_packages(room.__path__, f"{room.__name__}.")
        ),
    ]
    found = {  # two may have one name: duly.app has flows of jobs, and flow as in traffic
        kind
        for module in modules
        for name, kind in vars(module).items()
        if inspect.isclass(kind) and kind.__module__ == module.__name__ and name[0] != "_"
    }
    ordered = sorted(found, key=lambda kind: kind.__name__)
    return [kind for kind in ordered if any(map(is_awaited, verbs_of(kind).values()))]


def is_awaited(verb: Callable[..., Any]) -> bool:
    return inspect.iscoroutinefunction(verb) or inspect.isasyncgenfunction(verb)


FRONT = [kind for kind in classes() if kind.__name__ not in INSIDE]
PAIRS = [pair for kind in FRONT for pair in pairs_of(kind)]


def test_all_that_people_hold_is_looked_at() -> None:
    held = {kind.__name__ for kind in FRONT}
    nouns = {
        getattr(noun := member.fget.__annotations__["return"], "__name__", noun)
        for name, member in inspect.getmembers(Duly, lambda member: isinstance(member, property))
        if name in duly._OF_THE_APP | {"tokens", "audit"}
    } - {"TaskDecorator", "FlowDecorator", "Scheduling"}
    assert nouns >= {"Schedules", "Jobs", "Queues", "Limits", "Workers"}
    assert held >= nouns | {
        "Duly",
        "Task",
        "AsyncTask",
        "Flow",
        "Call",
        "Job",
        "Sandbox",
        "Running",
    }
    assert {kind.__name__ for kind in classes()} == held | set(INSIDE)


@pytest.mark.parametrize("kind", FRONT, ids=lambda kind: kind.__name__)
def test_every_verb_has_a_twin_or_a_reason(kind: type) -> None:
    paired = {name for pair in pairs_of(kind) for name in (pair.name, pair.twin)}
    alone = [f"{kind.__name__}.{name}" for name in verbs_of(kind) if name not in paired]
    assert [verb for verb in alone if verb not in NO_TWIN] == []


def test_no_reason_is_given_for_what_is_not_there() -> None:
    verbs = {f"{kind.__name__}.{name}" for kind in FRONT for name in verbs_of(kind)}
    paired = {pair.verb for pair in PAIRS}
    assert (set(NO_TWIN) | set(OWN_WORDS)) - verbs == set()
    assert set(NO_TWIN) & paired == set()


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.verb)
def test_twins_take_and_give_the_same(pair: Pair) -> None:
    plain, twin = (inspect.signature(function) for function in pair.functions())
    assert list(twin.parameters.values()) == list(plain.parameters.values())
    assert twin.return_annotation == awaited(plain.return_annotation)


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.verb)
def test_one_of_them_is_awaited(pair: Pair) -> None:
    plain, twin = pair.functions()
    assert (is_awaited(plain), is_awaited(twin)) == (False, True)


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.verb)
def test_what_a_verb_does_is_said_once(pair: Pair) -> None:
    """Two texts would be two things to keep true; the twin speaks where it is different."""
    _, twin = pair.functions()
    is_said = twin.__doc__ is not None
    assert is_said == (f"{pair.kind.__name__}.{pair.twin}" in OWN_WORDS)


def awaited(answer: Any) -> Any:  # noqa: ANN401 - an annotation
    """What whoever awaits it gets: the same, but one step at a time."""
    if get_origin(answer) is Iterator:
        return AsyncIterator[get_args(answer)]  # type: ignore[misc]
    return answer

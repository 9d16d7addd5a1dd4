"""Everything that a store is asked, and everything it answers, arrives as it was sent."""

import inspect
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, get_args, get_origin

import pytest

from duly.errors import InvalidValue
from duly.model.job import JobRequest, StoredJob
from duly.model.payload import Json
from duly.model.schedule import Plan, StoredSchedule
from duly.remote.calls import CALLS, RemoteCall
from duly.remote.codec import ANYTHING, hints_of, members, plain_kind, reader, shape_of, writer
from duly.store.store import NOUNS, SqlStore, Store
from duly.store.verbs import Noun, verbs_of
from duly.testing.clock import VirtualClock
from tests.app.remote.through_json import ThroughJson, sent_over
from tests.conformance import Make, check_store, checks
from tests.factories import distinct_call, distinct_plan, plan

# What is not even of the kind that is asked for is refused before the store sees it.
TYPED = ("a_place_that_no_page_gave_is_refused",)
NOW = datetime(2026, 3, 2, 12, tzinfo=UTC)


def test_every_public_method_of_a_noun_is_declared_as_a_verb() -> None:
    """So of each it is decided whether it is offered over HTTP, and to whom."""
    for kind in NOUNS.values():
        methods = {name for name, _ in inspect.getmembers(kind, inspect.isfunction)}
        assert verbs_of(kind).keys() == {name for name in methods if name[0] != "_"}


def test_every_noun_of_the_store_is_there() -> None:
    assert all(issubclass(kind, Noun) for kind in NOUNS.values())
    assert len(NOUNS) == 13


@pytest.mark.thorough("repeats the conformance suite; the tests below send every value and verb")
@pytest.mark.parametrize("noun", sorted({check.noun for check in checks()}))
async def test_a_store_keeps_its_promises_when_all_of_it_goes_over_the_wire(
    noun: str, sqlite_memory: Make
) -> None:
    @asynccontextmanager
    async def afar(clock: VirtualClock) -> AsyncIterator[Store]:
        async with sqlite_memory(clock) as near:
            assert isinstance(near, SqlStore)
            yield ThroughJson(near.database)

    await check_store(
        afar, only=[one for one in checks() if one.noun == noun and one.name not in TYPED]
    )


def test_a_call_with_another_value_in_every_column_arrives() -> None:
    for run_after in (None, NOW, timedelta(microseconds=1)):
        call = distinct_call(run_after)
        assert sent_over(call, JobRequest, trusting=False) == call


def test_a_plan_with_another_value_in_every_column_arrives_with_its_offsets() -> None:
    sent = distinct_plan(NOW)
    arrived = sent_over(sent, Plan, trusting=False)
    assert arrived == sent
    assert arrived.policies.as_json() == sent.policies.as_json()


def test_a_plan_that_nobody_can_read_arrives_as_it_was_stored() -> None:
    sent = plan()
    stored = Plan.remembered(**vars(sent) | {"rule": "when it rains", "unreadable": "a later one"})
    arrived = sent_over(stored, Plan, trusting=True)
    assert (arrived, arrived.unreadable) == (stored, "a later one")


def test_a_new_plan_that_nobody_can_read_is_refused() -> None:
    body = writer(Plan)(plan()) | {"rule": "when it rains"}
    with pytest.raises(ValueError, match="when it rains"):
        reader(Plan)(body, "plan")


def test_a_later_version_s_choice_is_refused_if_asked_and_passed_over_if_stored() -> None:
    body = writer(Plan)(plan()) | {"mood": "blue"}
    assert reader(Plan, trusting=True)(body, "plan") == plan()
    with pytest.raises(InvalidValue, match=r"^plan: mood: unknown field"):
        reader(Plan)(body, "plan")


@pytest.mark.parametrize(
    ("kind", "value", "said"),
    [
        (datetime, "2026-03-02T12:00", "it='2026-03-02T12:00': naive; it needs a zone, as"),
        (datetime, 7, "it=7: a time, as"),
        (timedelta, 10**40, "it=1000.*…: a length, in microseconds"),
        (timedelta, "5m", "it='5m': a length, in microseconds"),
        (int, True, "it=True: a whole number"),
        (int, 2**63, "it=9223372036854775808: a whole number"),
        (str, "a\0b", r"it='a\\x00b': text"),
        (list[int], [1, "2"], r"it\[1\]='2': a whole number"),
        (dict[int, str], [[1, "a"], [2]], r"it\[1\]=\[2\]: a list of 2"),
        (str | int, "web-1", "it='web-1': an object with one of str, int"),
        (StoredSchedule, {"id": 1}, "it: created_at, cursor, next_at, plan is missing"),
        (StoredJob, [], r"it=\[\]: an object: StoredJob"),
    ],
)
def test_what_is_no_such_value_is_refused_with_its_place(
    kind: object, value: object, said: str
) -> None:
    with pytest.raises(InvalidValue, match=f"^{said}"):
        reader(kind)(value, "it")


def test_a_viewer_is_sent_no_secrets() -> None:
    secretive = plan(args='{"password":"hunter2","to":"ada"}')
    assert writer(Plan, hiding=True)(secretive)["args"] == '{"password":"***","to":"ada"}'
    assert writer(Plan)(secretive)["args"] == '{"password":"hunter2","to":"ada"}'


def filled(kind: Any) -> Any:  # noqa: ANN401, C901, PLR0911, PLR0912 - a line for each shape
    """A value of this kind with a secret in every text and every JSON document of it."""
    match shape_of(kind):
        case "single" if kind is Json:
            return '{"password":"hunter2","said":["token=hunter2"]}'
        case "single" if kind is str or kind in ANYTHING:
            return "password=hunter2"
        case "single":
            return get_args(kind)[0] if get_origin(kind) is Literal else kind and plain_kind(kind)()
        case "enum":
            return next(iter(kind))
        case "moment":
            return datetime(2026, 3, 5, tzinfo=UTC)
        case "length":
            return timedelta(seconds=1)
        case "optional" | "several":
            return filled(members(kind)[0])
        case "items":
            return [filled(get_args(kind)[0])]
        case "row":
            return tuple(filled(part) for part in get_args(kind))
        case "mapping":
            key, value = get_args(kind)
            return {filled(key): filled(value)}
        case _:
            values = {name: filled(hint) for name, hint in hints_of(kind).items()}
            if issubclass(kind, tuple):
                return kind(**values)
            found = object.__new__(kind)  # unchecked: nobody has such names
            for name, value in values.items():
                object.__setattr__(found, name, value)
            return found


VIEWED = [call for call in CALLS.values() if call.role == "viewer"]


@pytest.mark.parametrize("call", VIEWED, ids=lambda call: f"{call.noun}.{call.verb}")
def test_no_verb_sends_a_viewer_a_secret(call: RemoteCall) -> None:
    value = filled(call.answers)
    for_operators = json.dumps(writer(call.answers)(value))
    for_viewers = json.dumps(writer(call.answers, hiding=True)(value))
    assert "hunter2" not in for_viewers
    assert ("hunter2" in for_operators) == ("***" in for_viewers)

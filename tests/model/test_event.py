"""What somebody may say that happened, and what a plan that reacts to it may be."""

from datetime import timedelta

import pytest

from duly.errors import DulyError, InvalidValue
from duly.model.event import Emitted, awaited, check_event, check_pattern
from duly.model.payload import LONGEST_ARGS, Json, encode
from tests.factories import plan


def test_an_event_has_a_name_and_fields() -> None:
    said = Emitted(name="invoice.paid", payload=encode({"id": 7}), key="7")
    assert (said.name, said.payload, said.key) == ("invoice.paid", '{"id":7}', "7")
    assert check_event("a.b") == "a.b"
    assert check_pattern("a.*") == "a.*"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"name": "invoice paid"}, "is not the name of an event"),
        ({"name": "a.*"}, "is not the name of an event"),
        ({"payload": Json("[1]")}, "its payload must be an object"),
        ({"payload": Json("{")}, "is not JSON"),
        ({"payload": Json('{"x":"' + "x" * LONGEST_ARGS + '"}')}, "more than the maximum of"),
        ({"key": ""}, "the key is empty"),
        ({"tenant": "\0"}, "NUL"),
    ],
)
def test_what_is_none_is_refused(words: dict[str, str], said: str) -> None:
    with pytest.raises(DulyError, match=said.replace("*", ".")):
        Emitted(**{"name": "a", **words})  # type: ignore[arg-type]


def test_what_is_waited_for_names_the_event_and_what_it_is_about() -> None:
    assert awaited("order.paid", None) == "order.paid"
    assert awaited("order.paid", "7") == "order.paid:7"


def test_reactions_do_not_wait_for_each_other() -> None:
    assert plan(rule="on a").policies.overlap == "allow"
    assert plan(rule="on a", overlap="allow").reaction is not None
    with pytest.raises(InvalidValue, match="do not wait for each other"):
        plan(rule="on a", overlap="queue_all")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"rule": " on a"}, 'write it as "on a"'),
        ({"rule": "(on a)"}, 'write it as "on a"'),
        ({"jitter": "5m"}, "jitter= needs scheduled times"),
        ({"max_runs": 3}, "max_runs= counts scheduled runs"),
        ({"exclude": "holidays(DE)"}, "cannot leave times out"),
        ({"rule": 'on a key="{a.b}"'}, "is not the name of an argument"),
    ],
)
def test_what_is_about_the_clock_means_nothing_for_a_reaction(
    words: dict[str, object], said: str
) -> None:
    asked: dict[str, object] = {"rule": "on a", **words}
    if "jitter" in asked:
        asked["jitter"] = timedelta(minutes=5)
    with pytest.raises(DulyError) as refused:
        plan(**asked)  # type: ignore[arg-type]
    assert said in str(refused.value)
    assert plan().reaction is None

"""Terms: nothing is stored for nothing, and what is stored is what is read."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duly.errors import InvalidValue
from duly.model.payload import Json, decode, encode
from duly.model.terms import Callback, Terms
from duly.policy.retry import Retry

lengths = st.none() | st.timedeltas(timedelta(), timedelta(days=3_000))
callbacks = st.none() | st.builds(
    Callback,
    task=st.sampled_from(["tell_ops", "tidy"]),
    queue=st.sampled_from(["default", "mail"]),
    priority=st.integers(-100, 100),
    retry=st.none() | st.builds(lambda attempts: Retry(attempts=attempts).as_json(), st.just(5)),
    argument=st.sampled_from(["job_id", "number"]),
)
terms = st.builds(
    Terms,
    timeout=lengths,
    keep_result=lengths,
    on_success=callbacks,
    on_failure=callbacks,
    on_cancelled=callbacks,
)


def test_a_job_that_asks_for_nothing_stores_nothing() -> None:
    assert Terms().as_json() is None
    assert Terms.from_json(None) == Terms()


def test_terms_are_stored_as_short_readable_text() -> None:
    asked = Terms(timeout=timedelta(minutes=90), on_failure=Callback(task="tell_ops"))
    assert decode(asked.as_json() or Json("")) == {
        "timeout": "1h30m",
        "on_failure": {
            "task": "tell_ops",
            "queue": "default",
            "priority": 0,
            "argument": "job_id",
        },
    }


def test_a_result_that_nobody_wants_is_not_the_same_as_nothing_said() -> None:
    assert Terms.from_json(Terms(keep_result=timedelta()).as_json()) != Terms()


@given(terms)
def test_what_is_stored_is_what_is_read(asked: Terms) -> None:
    assert Terms.from_json(asked.as_json()) == asked


def test_what_a_newer_version_stored_is_read_without_what_is_new() -> None:
    newer = {
        "timeout": "1s",
        "budget": {"cpu": 3},
        "on_success": {"task": "tidy", "colour": "red"},
    }
    assert Terms.from_json(encode(newer)) == Terms(
        timeout=timedelta(seconds=1), on_success=Callback(task="tidy")
    )


@pytest.mark.parametrize("text", ["[]", "3", "{"])
def test_a_stored_text_that_makes_no_sense_is_refused(text: str) -> None:
    with pytest.raises(InvalidValue):
        Terms.from_json(text)

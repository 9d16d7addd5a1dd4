"""Which schedules are meant, in words: those of jobs where they mean the same, and no others."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duly.errors import InvalidValue
from duly.model.job import Owner
from duly.model.schedule import Pause, StoredSchedule
from duly.model.schedule_filter import (
    EVERY_SCHEDULE,
    STATES,
    ScheduleFilter,
    parse_schedule_filter,
    schedule_filter_of,
)
from tests.factories import plan

MOMENT = datetime(2027, 1, 3, tzinfo=UTC)
NIGHTLY = StoredSchedule(
    id=1,
    plan=replace(
        plan("nightly-report"),
        task="report",
        queue="mail",
        title="The Night in Numbers",
        tags=("daily", "mail"),
        owner=Owner.CODE,
    ),
    created_at=MOMENT,
    cursor=MOMENT,
    next_at=MOMENT,
)
PAUSED = replace(NIGHTLY, pause=Pause(since=MOMENT))
FAULTY = replace(NIGHTLY, fault="Europe/Atlantis is no zone")


def test_every_word_has_its_meaning() -> None:
    text = 'state:paused,faulty task:report queue:mail owner:code tag:daily nightly "in Numbers"'
    wanted = ScheduleFilter(
        states=("paused", "faulty"),
        task="report",
        queue="mail",
        owners=("code",),
        tags=("daily",),
        texts=("nightly", "in Numbers"),
    )
    assert parse_schedule_filter(text) == wanted
    shell = ["state:paused,faulty", "task:report", "queue:mail", "owner:code", "tag:daily"]
    assert schedule_filter_of([*shell, "nightly", "in Numbers"]) == wanted


@pytest.mark.parametrize(
    ("words", "is_meant"),
    [
        ("", True),
        ("task:report queue:mail owner:code", True),
        ("task:repo", False),
        ("task:repo* queue:*ai*", True),
        ("task:repo* queue:ai*", False),
        ('task:"repo*"', False),
        ("queue:default", False),
        ("owner:file,person", False),
        ("owner:file,code", True),
        ("start:clock", True),
        ("start:event", False),
        ("start:event,clock", True),
        ("tag:daily tag:mail", True),
        ("tag:daily tag:weekly", False),
        ("NIGHT numbers", True),
        ("night letters", False),
        ("text:report", True),
        ("state:active", True),
        ("state:paused,faulty", False),
    ],
)
def test_all_words_must_fit(words: str, is_meant: bool) -> None:
    assert parse_schedule_filter(words).means(NIGHTLY) is is_meant


@pytest.mark.parametrize(
    ("schedule", "found_as"),
    [
        (NIGHTLY, {"active"}),
        (PAUSED, {"paused"}),
        (FAULTY, {"faulty"}),
        (replace(PAUSED, fault="no zone"), {"paused", "faulty"}),
    ],
)
def test_active_is_what_is_neither_paused_nor_faulty(
    schedule: StoredSchedule, found_as: set[str]
) -> None:
    means = {state for state in STATES if parse_schedule_filter(f"state:{state}").means(schedule)}
    assert means == found_as


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("colour:red", "there is state, task, queue, tenant, submitter, owner, start, tag, text"),
        ("stat:paused", "a filter has no key stat:; did you mean state:"),
        ("state:failed", 'no state of a schedule is called "failed"; there is active, paused'),
        ("state:pausd", "did you mean paused?"),
        ("owner:me", 'owner:me: no owner is called "me"'),
        ("paused", "paused: did you mean state:paused? To search for the text: text:paused"),
        ("queue:a queue:b", "queue:b: queue: is given twice, and a schedule has one"),
        ("task:", "task:: the value is missing"),
        (" ".join(["tag:x"] * 21), "more than 20 texts or tags"),
    ],
)
def test_what_is_no_filter_is_refused_with_what_may_be_meant(text: str, said: str) -> None:
    with pytest.raises(InvalidValue) as refused:
        parse_schedule_filter(text)
    assert said in str(refused.value)


words = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)
some = st.none() | words


@given(
    st.builds(
        ScheduleFilter,
        states=st.lists(st.sampled_from(STATES), unique=True).map(tuple),
        task=some,
        queue=some,
        owners=st.lists(st.sampled_from([one.value for one in Owner]), unique=True).map(tuple),
        tags=st.lists(words, max_size=3).map(tuple),
        texts=st.lists(words.filter(bool), max_size=3).map(tuple),
    )
)
def test_a_filter_reads_back_from_what_it_shows(wanted: ScheduleFilter) -> None:
    assert parse_schedule_filter(str(wanted)) == wanted


def test_nothing_said_is_everything() -> None:
    assert parse_schedule_filter(" \n") == EVERY_SCHEDULE

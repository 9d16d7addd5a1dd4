"""What becomes of an event, for one schedule."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from duly.model.event import StoredEvent
from duly.model.fire import Cause
from duly.model.limit import NamedLimit
from duly.model.payload import encode
from duly.model.schedule import Pause, Plan, StoredSchedule
from duly.policy.reaction import SkipEvent, StartJob, Withdrawal, is_meant, last_words, reaction
from duly.policy.reaction import called_off as called_off_by
from tests.factories import plan

NOW = datetime(2026, 3, 2, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
REMINDER = (
    'on class.scheduled key="class:{id}" run_after="-24h from starts_at" unless=class.cancelled'
)


def schedule(rule: str = "on doc.changed", **changes: Any) -> StoredSchedule:
    created = changes.pop("created_at", NOW - DAY)
    pause = changes.pop("pause", None)
    return StoredSchedule(
        id=1,
        plan=plan(rule=rule, **changes),
        created_at=created,
        cursor=created,
        next_at=None,
        pause=pause,
    )


def event(name: str = "doc.changed", *, at: datetime = NOW, **fields: Any) -> StoredEvent:
    return StoredEvent(id=7, name=name, payload=encode(fields), key=None, at=at, tenant="acme")


def start(one: object) -> StartJob:
    assert isinstance(one, StartJob), one
    return one


def skip(one: object) -> SkipEvent:
    assert isinstance(one, SkipEvent), one
    return one


def called_off(start: StartJob, later: list[StoredEvent]) -> StoredEvent | None:
    return called_off_by(start, last_words(start.schedule, later))


def test_an_event_that_is_not_meant_is_nothing() -> None:
    assert reaction(event("doc.removed"), schedule(), NOW) is None
    assert reaction(event(at=NOW - 2 * DAY), schedule(), NOW) is None
    assert not is_meant(event("doc.removed"), schedule().plan)
    assert is_meant(event("class.cancelled"), schedule(REMINDER).plan)


def test_what_was_before_the_schedule_is_for_it_when_it_is_replayed() -> None:
    old = event(at=NOW - 2 * DAY)
    assert start(reaction(old, schedule(), NOW, replayed=True)).moment == old.at


def test_fields_become_arguments_of_the_names_that_were_said() -> None:
    args = {
        "doc_id": {"$event": "doc"},
        "note": {"$event": "note", "optional": True},
        "mode": {"$event": "mode", "optional": True, "default": "full"},
        "fixed": {"x": 1},
    }
    asked = schedule(args=encode(args))
    call = start(reaction(event(doc=3, more=True), asked, NOW)).call
    assert call.args == '{"doc_id":3,"mode":"full","fixed":{"x":1}}'
    assert (call.tenant, call.key, call.run_after) == ("acme", None, NOW)
    said = start(reaction(event(doc=None, note="n", mode="part"), asked, NOW)).call.args
    assert said == '{"doc_id":null,"note":"n","mode":"part","fixed":{"x":1}}'


def test_a_title_and_limits_are_named_by_the_event() -> None:
    lane = NamedLimit(name="doc:{doc}", template="doc:{doc}", concurrency=1)
    asked = schedule(args=encode({"doc": {"$event": "doc"}}), title="index {doc}", limits=(lane,))
    call = start(reaction(event(doc=3), asked, NOW)).call
    assert (call.title, call.limits) == ("index 3", (replace(lane, name="doc:3"),))
    untitled = schedule(title="index {other}")
    assert start(reaction(event(), untitled, NOW)).call.title == "", "rather that than no reaction"


@pytest.mark.parametrize(
    ("asked", "fields", "said"),
    [
        (
            {"args": encode({"doc_id": {"$event": "doc_id"}})},
            {},
            'doc.changed (event 7) has no field "doc_id", which work takes',
        ),
        ({"rule": 'on doc.changed key="{doc}"'}, {}, 'has no field "doc", which key="{doc}" names'),
        ({"rule": 'on doc.changed key="{doc}"'}, {"doc": [1]}, "is a list"),
        ({"rule": 'on doc.changed key="{doc}"'}, {"doc": ""}, "is empty for"),
        ({"rule": 'on doc.changed key="{doc}"'}, {"doc": "x" * 501}, "the maximum is 500"),
        ({"rule": 'on doc.changed run_after="1h from due"'}, {}, 'has no field "due"'),
        (
            {"rule": 'on doc.changed run_after="1h from due"'},
            {"due": "soon"},
            "its due, 'soon', is not a time with an offset",
        ),
        (
            {"rule": 'on doc.changed run_after="1h from due"'},
            {"due": "2026-03-02T12:00"},
            "is not a time with an offset",
        ),
        (
            {"rule": 'on doc.changed run_after="1h from due"'},
            {"due": 1772452800},
            "is not a time",
        ),
        (
            {"rule": 'on doc.changed run_after="1h from due"'},
            {"due": "9999-12-31T23:59:59+00:00"},
            "from 1970 to 2199",
        ),
        ({"limits": (NamedLimit(name="{x}", template="{x}", concurrency=1),)}, {}, "no argument"),
    ],
)
def test_what_lacks_something_is_refused_with_a_sentence(
    asked: dict[str, Any], fields: dict[str, Any], said: str
) -> None:
    found = skip(reaction(event(**fields), schedule(**asked), NOW))
    assert found.cause is Cause.REFUSED
    assert said in found.reason


def test_a_plan_that_cannot_be_read_says_so_for_every_event() -> None:
    stored = {**plan(rule="on a").__dict__, "unreadable": "too new"}
    unreadable = Plan.remembered(**{name: stored[name] for name in stored if name[0] != "_"})
    found = skip(reaction(event(), replace(schedule(), plan=unreadable), NOW))
    assert (found.cause, found.reason) == (Cause.REFUSED, "too new")
    assert is_meant(event(), unreadable)


def test_a_debounce_counts_from_the_event_under_its_key() -> None:
    keyed = start(reaction(event(doc=3), schedule('on doc.* key="d:{doc}" debounce=30s'), NOW))
    assert (keyed.moment, keyed.call.key) == (NOW + timedelta(seconds=30), "acme:d:3")
    assert "; runs " in keyed.reason


def test_a_delay_counts_from_the_event_or_from_a_moment_in_it() -> None:
    assert start(reaction(event(), schedule("on * run_after=10m"), NOW)).moment == NOW + HOUR / 6
    class_ = event("class.scheduled", id=7, starts_at="2026-03-10T10:00+02:00")
    found = start(reaction(class_, schedule(REMINDER), NOW))
    assert found.moment == datetime(2026, 3, 9, 8, tzinfo=UTC)
    assert found.call.run_after == found.moment


def test_a_moment_that_has_passed_is_for_now_unless_it_had_to_start_in_time() -> None:
    soon = event("class.scheduled", id=7, starts_at=(NOW + 3 * HOUR).isoformat())
    asked = schedule(REMINDER)
    assert start(reaction(soon, asked, NOW)).moment == NOW - 21 * HOUR
    within = schedule(REMINDER, start_within=12 * HOUR)
    assert skip(reaction(soon, within, NOW)).cause is Cause.LATE
    hurried = schedule(REMINDER, start_within=12 * HOUR, late="hurry", priority=60)
    call = start(reaction(soon, hurried, NOW)).call
    assert (call.priority, call.start_within) == (60, None)
    in_time = schedule(REMINDER, start_within=22 * HOUR)
    assert start(reaction(soon, in_time, NOW)).call.start_within == 22 * HOUR


def test_what_happens_in_a_pause_is_skipped_and_what_was_before_it_is_not() -> None:
    pause = Pause(since=NOW - HOUR, by="ada", note="migration")
    paused = schedule(pause=pause)
    found = skip(reaction(event(), paused, NOW))
    assert found.cause is Cause.PAUSED
    assert "by ada" in found.reason
    start(reaction(event(at=NOW - 2 * HOUR), paused, NOW))
    over = schedule(pause=replace(pause, until=NOW))
    start(reaction(event(), over, NOW))
    start(reaction(event(), paused, NOW, replayed=True))


def test_what_calls_off_names_the_key_also_in_a_pause() -> None:
    asked = schedule(REMINDER, pause=Pause(since=NOW - HOUR))
    called = reaction(event("class.cancelled", id=7), asked, NOW)
    assert isinstance(called, Withdrawal)
    assert called.key == "acme:class:7"
    both = schedule(REMINDER.replace("on class.scheduled", "on class.*"))
    assert isinstance(reaction(event("class.cancelled", id=7), both, NOW), Withdrawal)


def test_only_what_came_later_about_the_same_calls_off() -> None:
    class_ = event("class.scheduled", id=7, starts_at=(NOW + DAY).isoformat())
    first = start(reaction(class_, schedule(REMINDER), NOW))
    later = replace(event("class.cancelled", id=7, at=NOW + HOUR), id=9)
    assert called_off(first, [later]) == later
    assert called_off(first, [replace(later, at=NOW - HOUR)]) is None
    assert called_off(first, [replace(later, at=NOW, id=6)]) is None
    assert called_off(first, [replace(later, payload=encode({"id": 8}))]) is None
    assert called_off(first, [replace(later, payload=encode({}))]) is None
    assert called_off(first, [replace(later, name="class.moved")]) is None
    plain = start(reaction(event(), schedule(), NOW))
    assert called_off(plain, [later]) is None


def test_of_several_that_call_off_the_last_is_told_whatever_their_order() -> None:
    class_ = event("class.scheduled", id=7, starts_at=(NOW + DAY).isoformat())
    first = start(reaction(class_, schedule(REMINDER), NOW))
    before, behind, last = (
        replace(event("class.cancelled", id=7, at=NOW + hours * HOUR), id=20 + hours)
        for hours in (-1, 1, 2)
    )
    for order in ([before, behind, last], [last, behind, before]):
        assert called_off(first, order) == last


def test_keys_are_each_tenants_own_unless_the_schedule_is_ones() -> None:
    keyed = 'on doc.changed key="d:{doc}"'
    keys = {
        (plan_of, said_by): start(
            reaction(replace(event(doc=3), tenant=said_by), schedule(keyed, tenant=plan_of), NOW)
        ).call.key
        for plan_of, said_by in (("", ""), ("", "acme"), ("", "globex"), ("acme", "acme"))
    }
    assert list(keys.values()) == ["d:3", "acme:d:3", "globex:d:3", "d:3"]
    long = replace(event(doc="x" * 490), tenant="t" * 20)
    assert "the tenant and the key together" in skip(reaction(long, schedule(keyed), NOW)).reason


def test_what_one_tenant_cancels_is_another_for_others() -> None:
    class_ = event("class.scheduled", id=7, starts_at=(NOW + DAY).isoformat())
    made = start(reaction(class_, schedule(REMINDER), NOW))
    theirs = replace(event("class.cancelled", id=7, at=NOW + HOUR), id=9, tenant="globex")
    assert called_off(made, [theirs]) is None
    assert called_off(made, [replace(theirs, tenant="acme")]) is not None


def test_a_tenants_event_touches_nothing_of_others() -> None:
    other = schedule(REMINDER, tenant="other")
    said: dict[str, Any] = {"id": 1, "starts_at": (NOW + 2 * DAY).isoformat()}
    assert reaction(event("class.scheduled", **said), other, NOW) is None
    apps = replace(event("class.scheduled", **said), tenant="")
    made = start(reaction(apps, other, NOW))
    cancelled = event("class.cancelled", at=NOW + HOUR, id=1)
    assert called_off(made, [cancelled]) is None
    for tenant in ("", "other"):
        theirs = replace(cancelled, tenant=tenant)
        assert called_off(made, [theirs]) == theirs

"""What is simulated when things stand as a sandbox cannot have them: cut off, stopped, paused."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from duly.connection import migrate_tables
from duly.durations import usual_runtime
from duly.errors import InvalidValue
from duly.model.limit import NamedLimit
from duly.model.schedule import Pause, Plan
from duly.model.terms import Callback, Terms
from duly.policy.firing import decide
from duly.policy.retry import Retry
from duly.rehearse.simulation import (
    MOST_MOMENTS,
    KnownSchedule,
    continued,
    known_of,
    simulate,
    window_end,
)
from duly.rehearse.story import ClockChange, Outage, Story, StoryMoment, Unended, WhatIf
from duly.store.connect import connect
from duly.store.store import Store
from duly.testing.clock import VirtualClock
from tests.factories import plan

MIDNIGHT = datetime(2027, 1, 4, tzinfo=UTC)


def at(hour: float) -> datetime:
    return MIDNIGHT + timedelta(hours=hour)


def minutes(count: int) -> timedelta:
    return timedelta(minutes=count)


def told(hours: float, wanted: Plan, **changes: Any) -> Story:
    return asyncio.run(
        simulate(WhatIf(**{"plan": wanted, "start": MIDNIGHT, "end": at(hours), **changes}))
    )


def spans(moment: StoryMoment) -> list[tuple[float, float, str]]:
    hour = timedelta(hours=1)
    return [
        ((one.start - MIDNIGHT) / hour, (one.end - MIDNIGHT) / hour, one.outcome)
        for one in moment.attempts
    ]


def test_a_run_that_an_outage_cuts_off_begins_again_behind_it() -> None:
    story = told(6, plan(rule="every 2h"), outages=[Outage(at(2.5), at(4.25))], runtime=minutes(60))
    first, cut, skipped = story.moments
    assert spans(first) == [(0, 1, "succeeded")]
    assert spans(cut) == [(2, 2.5, "lost"), (4.25, 5.25, "succeeded")]
    assert (skipped.outcome, skipped.cause) == ("skipped", "overlap")
    assert story.sentence == "3 due: 2 would run, 1 skipped"


def test_a_run_that_was_cut_off_may_stand_for_a_newer_moment_when_it_begins_again() -> None:
    story = told(
        7,
        plan(rule="every 2h", overlap="queue_one"),
        outages=[Outage(at(2.5), at(4.25))],
        runtime=minutes(60),
    )
    _, cut, newer, _ = story.moments
    assert (cut.outcome, spans(cut)) == ("merged", [(2, 2.5, "lost")])
    assert (newer.outcome, spans(newer)) == ("runs", [(4.25, 5.25, "succeeded")])
    assert newer.lateness == minutes(15)


def test_a_run_that_is_cut_off_again_and_again_is_given_up() -> None:
    outages = [Outage(at(n + 0.5), at(n + 0.75)) for n in range(12)]
    story = told(14, plan(rule="0 0 * * *", zone="UTC"), outages=outages, runtime=minutes(60))
    [moment] = story.moments
    assert (moment.outcome, len(moment.attempts)) == ("failed", 10)
    assert "crashed with its worker 10 times" in moment.why


def test_who_is_replaced_stops_when_the_next_one_is_due() -> None:
    story = told(3, plan(rule="every 1h", overlap="replace"), runtime=minutes(90))
    assert [(m.outcome, spans(m)) for m in story.moments] == [
        ("stopped", [(0, 1, "stopped")]),
        ("stopped", [(1, 2, "stopped")]),
        ("stopped", [(2, 3, "stopped")]),  # by the one that is due at the end
    ]
    assert story.sentence == "3 due: 3 would run (3 of them stopped before the end)"


def test_who_runs_longer_than_its_timeout_is_tried_again_and_fails() -> None:
    retry = Retry(attempts=2, backoff=["10m"], jitter=False).as_json()
    wanted = plan(rule="every 3h", terms=Terms(timeout=minutes(30)), retry=retry)
    story = told(3, wanted, runtime=minutes(60))
    [moment] = story.moments
    assert moment.outcome == "failed"
    assert [outcome for _, _, outcome in spans(moment)] == ["timedout", "timedout"]
    assert moment.attempts[1].start - moment.attempts[0].end == minutes(10)
    assert "ran longer than 30m; no attempt is left" in moment.why


def test_runs_beside_each_other_meet_a_limit_of_one() -> None:
    lane = NamedLimit(name="one", template="one", concurrency=1)
    wanted = plan(rule="every 1h", overlap="allow", limits=(lane,))
    story = told(3, wanted, runtime=minutes(90))
    assert [spans(m)[0][:2] for m in story.moments] == [(0, 1.5), (1.5, 3), (3, 4.5)]


def test_what_follows_a_run_is_another_story() -> None:
    callback = Callback(task="work")  # itself, even
    wanted = plan(rule="every 1h", overlap="queue_all", terms=Terms(on_success=callback))
    story = told(6, wanted, runtime=minutes(90))
    starts = [starts for moment in story.moments for starts, _, _ in spans(moment)]
    assert starts == [0, 1.5, 3, 4.5, 6, 7.5]


def test_what_is_due_in_a_pause_is_skipped_also_if_it_ends_later() -> None:
    pause = Pause(since=at(-1), until=at(1.5), by="ada", note="stocktaking")
    story = told(3, plan(rule="every 1h"), pause=pause)
    assert [(m.outcome, m.count) for m in story.moments] == [("skipped", 2), ("runs", 1)]
    assert "paused by ada" in story.moments[0].why
    later = told(3, plan(rule="every 1h"), pause=replace(pause, until=at(9)))
    assert [(m.outcome, m.cause, m.count) for m in later.moments] == [("skipped", "paused", 3)]


def test_a_pause_that_is_caught_up_with_must_end_in_time() -> None:
    pause = Pause(since=at(-1), until=at(9), catch_up=True)
    with pytest.raises(InvalidValue, match="the pause is not over"):
        told(3, plan(rule="every 1h"), pause=pause)
    story = told(12, plan(rule="every 1h"), pause=pause)
    assert [m.outcome for m in story.moments][:2] == ["merged", "runs"]


def test_what_a_calendar_leaves_out_is_counted_up_to_the_end() -> None:
    story = told(12, plan(rule="every 1h", exclude="(08:00 UTC) lasting=9h", zone="UTC"))
    assert (story.moments[-1].cause, story.moments[-1].count) == ("excluded", 4)
    assert story.sentence == "12 due: 8 would run, 4 skipped"


def test_a_run_of_before_is_in_the_way_until_it_has_ended() -> None:
    before = Unended(at(-1), at(-1))
    story = told(3, plan(rule="every 1h"), unended=before, runtime=minutes(90))
    assert [m.outcome for m in story.moments] == ["skipped", "runs", "skipped"]
    assert "the run of Sun 2027-01-03 23:00 UTC has not ended" in story.moments[0].why


def test_the_clocks_that_are_set_are_told() -> None:
    start = datetime(2026, 10, 24, 22, tzinfo=UTC)
    story = told(
        0, plan(rule="0 6 * * *", zone="Europe/Berlin"), start=start, end=start + minutes(720)
    )
    assert story.clock_changes == [
        ClockChange(datetime(2026, 10, 25, 1, tzinfo=UTC), timedelta(hours=-1))
    ]


@pytest.mark.parametrize(
    ("wanted", "changes", "message"),
    [
        (plan(rule="every 1s"), {}, '86,400 runs of "every 1s" are due'),
        (plan(rule="spaced 1s"), {}, "at most 5,000 are simulated"),
        (plan(), {"end": MIDNIGHT}, "the end is not after the start"),
        (plan(), {"outages": [Outage(at(2), at(1))]}, "ends too early"),
        (plan(), {"outages": [Outage(at(2), at(24))]}, "simulate a longer stretch"),
    ],
)
def test_what_cannot_be_simulated_is_refused(
    wanted: Plan, changes: dict[str, Any], message: str
) -> None:
    assert MOST_MOMENTS == 5_000
    with pytest.raises(InvalidValue, match=message):
        told(24, wanted, **changes)


def test_nothing_due_is_said() -> None:
    assert told(3, plan(rule="0 12 * * *", zone="UTC")).sentence == "nothing is due"


def test_the_usual_runtime_is_the_median() -> None:
    assert usual_runtime([]) is None
    assert usual_runtime([minutes(9), minutes(40), minutes(2000)]) == minutes(40)
    assert usual_runtime([timedelta(seconds=40.2)]) == timedelta(seconds=40)
    assert usual_runtime([timedelta(milliseconds=7)]) == timedelta(milliseconds=7)


@pytest.mark.parametrize(
    ("rule", "outages", "hours"),
    [
        ("every 1h", [], 24),
        ("every 1m", [], 21 / 60),
        ("0 12 * * 3", [], 2.5 * 24 + 24),  # the next one, and a day
        ("every 1h", [Outage(at(3), at(9))], 9 + 24),
        ("spaced 1h", [], 20),
        ("spaced 30h", [], 60),
        ("spaced 1m", [], 20 / 60),
    ],
)
def test_a_sensible_stretch_shows_how_it_goes(
    rule: str, outages: list[Outage], hours: float
) -> None:
    zone = None if rule.startswith(("every", "spaced")) else "UTC"
    assert window_end(plan(rule=rule, zone=zone), MIDNIGHT, outages=outages) == at(hours)


def test_things_go_on_as_they_stand() -> None:
    async def found() -> tuple[KnownSchedule, KnownSchedule]:
        clock = VirtualClock(MIDNIGHT)
        store: Any = connect(":memory:", clock=clock)
        await store.open()
        try:
            await migrate_tables(store)
            await store.schedules.add([plan("hourly", "every 1h"), plan("delay", "spaced 1h")])
            await store.schedules.skip_next("hourly")
            clock.set(at(0.25))
            await _fire(store)
            clock.set(at(0.5))
            return await known_of(store, "hourly"), await known_of(store, "delay")
        finally:
            await store.close()

    hourly, delay = asyncio.run(found())
    assert (hourly.now, hourly.unended, hourly.pause) == (at(0.5), None, None)
    assert [fire.due_at for fire in hourly.asked] == [at(1)]
    assert delay.unended is not None
    what = WhatIf(plan=delay.plan, start=at(0.5), end=at(4), runtime=minutes(30))
    going_on = asyncio.run(simulate(continued(what, delay)))
    assert [moment.due_at for moment in going_on.moments] == [at(2), at(3.5)]
    what = WhatIf(plan=hourly.plan, start=at(0.5), end=at(4), asked=hourly.asked)
    skipping = asyncio.run(simulate(continued(what, hourly)))
    assert [(m.due_at, m.outcome) for m in skipping.moments] == [
        (at(1), "skipped"),
        (at(2), "runs"),
        (at(3), "runs"),
    ]


async def _fire(store: Store) -> None:
    await store.ledger.fire(decide, limit=10, trust=lambda _: True)

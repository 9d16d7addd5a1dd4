"""Every due moment is covered by exactly one row, and it says what the slow way says.

The dice choose rules, exclusions, bounds, policies, jobs that live and moments that are settled;
they fall on clock changes, too. ``deciding`` works out the slow way what must become of it all.
"""

from collections import Counter
from dataclasses import replace
from datetime import datetime, timedelta
from typing import get_args

from hypothesis import given, settings
from hypothesis import strategies as st

from duly.model.fire import Cause, Outcome
from duly.model.policies import Late, Missed, Overlap, Policies
from duly.model.schedule import Pause, Plan, StoredSchedule
from duly.model.states import LIVE, State
from duly.policy.decision import Facts, Firing, LiveJob
from duly.policy.firing import decide
from duly.rules import Rule
from tests.infrastructure.tiers import examples
from tests.policy.deciding import DAY, HOUR, MINUTE, SECOND, at, covered, fates, moments_of

BERLIN = "Europe/Berlin"
ANCHORS = [
    at("2026-06-03 08:00"),
    at("2026-10-24 22:00"),  # the night in which Berlin has 02:30 twice
    at("2027-03-27 22:00"),  # and the one in which it has no 02:30
]
RULES = {  # with about how long it takes from one moment to the next
    "every 1s": SECOND,
    "every 7s": 7 * SECOND,
    "every 5m": 5 * MINUTE,
    "*/5 * * * *": 5 * MINUTE,
    "0,30 1-3 * * *": 3 * HOUR,
    "30 2 * * *": DAY,
    "0 9 * * 1-5": DAY,
    "every 5m | every 7m": 3 * MINUTE,
    "every 10m - 0 * * * *": 10 * MINUTE,
    "*/5 * * * * - (0 2 * * * lasting=90m)": 5 * MINUTE,
}
EXCLUSIONS = [
    None,
    "0 */2 * * *",
    "*/15 5-8 * * 1-3",
    "0 2 * * 1,6,7 lasting=90m",
    "Sat,Sun lasting=1d",
]


@st.composite
def policies(draw: st.DrawFn, step: timedelta, start: datetime) -> Policies:
    lengths = st.sampled_from([step / 2, step, 5 * step, 100 * step])
    missed = Missed(
        draw(st.sampled_from(["latest", "all", "skip"])),
        at_most=draw(st.sampled_from([1, 2, 10, 100])),
        spacing=draw(st.none() | lengths),
        grace=draw(lengths),
    )
    begin = draw(st.none() | st.integers(-5, 5).map(lambda n: start + n * step))
    end = draw(st.none() | st.integers(6, 30).map(lambda n: start + n * step))
    return Policies(
        overlap=draw(st.sampled_from(get_args(Overlap))),
        missed=missed,
        start_within=draw(st.none() | lengths),
        late=draw(st.sampled_from(get_args(Late))),
        exclude=draw(st.sampled_from(EXCLUSIONS)),
        jitter=draw(st.none() | lengths),
        start=begin,
        end=end,
    )


@st.composite
def schedules(draw: st.DrawFn) -> tuple[StoredSchedule, timedelta]:
    rule = draw(st.sampled_from(list(RULES)))
    step = RULES[rule]
    cursor = draw(st.sampled_from(ANCHORS)) + draw(st.integers(0, 40)) * step / 10
    plan = Plan(
        name=draw(st.sampled_from(["a", "b"])),
        task="t",
        rule=rule,
        zone=BERLIN,
        policies=draw(policies(step, cursor)),
    )
    pause = None
    if draw(st.integers(0, 3)) == 0:
        until = cursor + draw(st.integers(1, 20)) * step
        pause = Pause(since=cursor, until=until, catch_up=draw(st.booleans()))
    kept = plan.kept
    assert isinstance(kept, Rule)
    next_at = pause.until if pause else kept.after(cursor)
    found = StoredSchedule(
        id=1, plan=plan, created_at=cursor, cursor=cursor, next_at=next_at, pause=pause
    )
    return found, step


@st.composite
def live_jobs(draw: st.DrawFn, cursor: datetime) -> tuple[LiveJob, ...]:
    states = draw(st.lists(st.sampled_from(LIVE), max_size=3))
    return tuple(
        LiveJob(n, state, cursor - (9 - n) * SECOND, n + 100) for n, state in enumerate(states)
    )


@st.composite
def decisions(draw: st.DrawFn) -> tuple[Facts, datetime]:
    """A schedule, what is known about it, and now."""
    schedule, step = draw(schedules())
    start = schedule.cursor
    if schedule.pause and schedule.pause.until:
        start = schedule.pause.until
    now = start + draw(st.integers(0, 400)) * step / 10
    due = moments_of(schedule.plan.timing, schedule.cursor, now + 3 * step)
    settled = draw(st.sets(st.sampled_from(due), max_size=5)) if due else set()
    live = draw(live_jobs(schedule.cursor))
    return Facts(schedule=schedule, live=live, settled=frozenset(settled)), now


def after(firing: Firing) -> StoredSchedule:
    """The schedule as the store remembers it when the decision was written."""
    return replace(firing.schedule, cursor=firing.cursor, next_at=firing.next_at, pause=None)


@given(decisions())
@settings(max_examples=examples(200))
def test_every_due_moment_is_covered_by_exactly_one_row_of_its_kind(
    drawn: tuple[Facts, datetime],
) -> None:
    facts, now = drawn
    plan, cursor = facts.schedule.plan, facts.schedule.cursor
    entries = decide(facts, now).entries
    kept = set(moments_of(plan.kept, cursor, now)) - facts.settled
    lost = set(moments_of(plan.timing, cursor, now)) - kept - facts.settled
    found = covered(entries, kept, lost)
    assert {moment: len(rows) for moment, rows in found.items()} == dict.fromkeys(kept | lost, 1)
    held = Counter(id(row) for [row] in found.values())
    assert [entry.count for entry in entries] == [held[id(entry)] for entry in entries]
    for entry in entries:
        assert {entry.covers_from, entry.due_at} <= kept | lost
        assert found[entry.covers_from] == found[entry.due_at] == [entry]


@given(decisions())
@settings(max_examples=examples(200))
def test_every_moment_has_the_fate_that_the_slow_way_finds(drawn: tuple[Facts, datetime]) -> None:
    facts, now = drawn
    expected = fates(facts, now)
    kept = [moment for moment, fate in expected.items() if fate[1] is not Cause.EXCLUDED]
    rows = covered(decide(facts, now).entries, kept, expected.keys() - set(kept))
    found = {moment: (row.outcome, row.cause) for moment, [row] in rows.items()}
    assert found == expected


@given(decisions())
def test_nothing_is_early_and_no_moment_has_two_rows(drawn: tuple[Facts, datetime]) -> None:
    facts, now = drawn
    firing = decide(facts, now)
    dues = [entry.due_at for entry in firing.entries]
    assert dues == sorted(set(dues))
    assert not facts.settled.intersection(dues)
    for entry in firing.entries:
        assert facts.schedule.cursor < entry.covers_from <= entry.due_at <= now
    for job in firing.jobs:
        kept_its_place = facts.schedule.plan.policies.overlap in {"queue_one", "replace"}
        assert job.ready_at >= job.due_at or kept_its_place
        assert (job.state is State.SCHEDULED) <= (job.ready_at > now)
        assert (job.state is State.READY) <= (job.ready_at <= now)


@given(decisions())
def test_the_next_moment_is_the_first_that_is_kept_after_now(
    drawn: tuple[Facts, datetime],
) -> None:
    facts, now = drawn
    firing, kept = decide(facts, now), facts.schedule.plan.kept
    assert isinstance(kept, Rule)
    assert firing.next_at == next(kept.between(now, now + 5_000 * DAY, 1), None)


@given(decisions(), st.timedeltas(timedelta(0), 2 * DAY))
def test_a_clock_that_goes_back_fires_nothing_and_moves_nothing(
    drawn: tuple[Facts, datetime], back: timedelta
) -> None:
    facts, now = drawn
    firing = decide(facts, now)
    later = replace(facts, schedule=after(firing))
    again = decide(later, now - back)
    assert (again.entries, again.stopping) == ([], [])
    assert (again.cursor, again.next_at) == (firing.cursor, firing.next_at)


@given(decisions())
def test_the_same_facts_give_the_same_decision(drawn: tuple[Facts, datetime]) -> None:
    facts, now = drawn
    plan = facts.schedule.plan
    twin = Plan(
        name=plan.name, task=plan.task, rule=plan.rule, zone=plan.zone, policies=plan.policies
    )
    anew = replace(facts, schedule=replace(facts.schedule, plan=twin))
    assert decide(anew, now) == decide(facts, now)


@given(decisions(), st.floats(0, 1))
def test_two_looks_at_a_stretch_queue_what_one_look_queues(
    drawn: tuple[Facts, datetime], part: float
) -> None:
    facts, now = drawn
    plan = facts.schedule.plan
    everything = replace(
        plan.policies, overlap="allow", missed=Missed("all", at_most=10_000), start_within=None
    )
    calm = replace(facts.schedule, plan=replace(plan, policies=everything), pause=None)
    facts = replace(facts, schedule=calm)
    cursor = calm.cursor
    first = decide(facts, cursor + part * (now - cursor))
    second = decide(replace(facts, schedule=after(first)), now)
    assert queued(first) + queued(second) == queued(decide(facts, now))


def queued(firing: Firing) -> list[datetime]:
    return [entry.due_at for entry in firing.entries if entry.outcome is Outcome.QUEUED]


@given(decisions())
def test_never_more_jobs_wait_than_the_overlap_policy_allows(
    drawn: tuple[Facts, datetime],
) -> None:
    facts, now = drawn
    firing, overlap = decide(facts, now), facts.schedule.plan.policies.overlap
    waiting = sum(job.state is not State.RUNNING for job in facts.live)
    taken = [entry for entry in firing.entries if entry.takes_over]
    if overlap == "skip":
        assert len(firing.jobs) <= (not facts.live)
    if overlap in {"queue_one", "replace"}:
        assert len(firing.jobs) + min(waiting, 1) <= 1
        assert len(taken) <= min(waiting, 1)
    else:
        assert not taken
    if overlap != "allow" and facts.live:
        assert {job.state for job in firing.jobs} <= {State.BLOCKED}
    running = {job.id for job in facts.live if job.state is State.RUNNING}
    acted = overlap == "replace" and (firing.jobs or taken)
    assert set(firing.stopping) == (running if acted else set())


@given(decisions())
def test_a_merged_row_names_a_moment_that_has_a_job(drawn: tuple[Facts, datetime]) -> None:
    facts, now = drawn
    entries = decide(facts, now).entries
    standing = [entry for entry in entries if entry.outcome is Outcome.QUEUED]
    for entry in entries:
        if entry.outcome is Outcome.MERGED:
            assert len(standing) == 1
            assert standing[0].due_at > entry.due_at
            assert entry.reason.startswith("merged into the run of ")
            assert (entry.job, entry.takes_over, entry.deadline) == (None, None, None)

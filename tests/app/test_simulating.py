"""What is simulated is what happens: the same plan, outages and runtimes, lived in a sandbox.

A task takes time in a sandbox by travelling: the box lets it pass, and fires what is due meanwhile.
"""

import asyncio
import re
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from duly import Duly, Missed, current
from duly.model.schedule import Plan
from duly.rehearse.simulation import simulate
from duly.rehearse.story import Outage, Story, StoryMoment, WhatIf
from duly.testing import Sandbox

MIDNIGHT = datetime(2027, 1, 4, tzinfo=UTC)
BEFORE_SPRING = datetime(2027, 3, 27, 22, tzinfo=UTC)  # the night in which Berlin has no 02:30
MOMENT = timedelta(microseconds=1)
STEP = timedelta(minutes=10)


@dataclass(frozen=True, kw_only=True)
class Case:
    rule: str = "every 1h"
    words: dict[str, Any] = field(default_factory=dict)
    start: datetime = MIDNIGHT
    outages: tuple[tuple[str, str], ...] = ()
    runtime: timedelta = timedelta()

    @property
    def end(self) -> datetime:
        return self.start + timedelta(hours=12)

    @property
    def down(self) -> list[Outage]:
        return [Outage(*(self._at(text) for text in stretch)) for stretch in self.outages]

    def _at(self, text: str) -> datetime:
        hours, minutes = map(int, text.split(":"))
        return self.start + timedelta(hours=hours, minutes=minutes)


def minutes(count: int) -> timedelta:
    return timedelta(minutes=count)


CASES = {
    "what runs long is skipped, and what was missed is made up for once": Case(
        outages=(("3:50", "8:10"),), runtime=minutes(100)
    ),
    "what is missed is left alone": Case(words={"missed": "skip"}, outages=(("1:30", "5:10"),)),
    "the newest waits": Case(
        words={"overlap": "queue_one"}, outages=(("0:00", "2:30"),), runtime=minutes(100)
    ),
    "all wait, of what was missed the newest three, with a space between": Case(
        words={"overlap": "queue_all", "missed": Missed("all", at_most=3, spacing="10m")},
        outages=(("0:00", "5:10"),),
        runtime=minutes(70),
    ),
    "who waits too long does not start": Case(
        words={"overlap": "queue_all", "start_within": "50m"}, runtime=minutes(130)
    ),
    "who waits too long hurries": Case(
        words={"overlap": "queue_all", "start_within": "50m", "late": "hurry"},
        runtime=minutes(100),
    ),
    "all at once": Case(
        words={"overlap": "allow", "missed": "all"}, outages=(("2:10", "7:20"), ("8:40", "10:30"))
    ),
    "what is too late is skipped": Case(
        words={"missed": "all", "start_within": "2h"}, outages=(("1:10", "6:20"),)
    ),
    "what is too late runs": Case(
        words={"missed": "all", "start_within": "2h", "late": "run", "overlap": "queue_all"},
        outages=(("1:30", "6:20"),),
        runtime=minutes(20),
    ),
    "a calendar leaves out": Case(
        words={"exclude": "(03:00 UTC) lasting=3h"}, outages=(("1:10", "4:20"),)
    ),
    "a fixed delay": Case(rule="spaced 50m", outages=(("0:40", "4:20"),), runtime=minutes(20)),
    "jitter": Case(words={"jitter": "40m", "overlap": "allow"}, outages=(("2:10", "7:20"),)),
    "a night with a gap": Case(
        rule="*:30 Europe/Berlin", start=BEFORE_SPRING, words={"dst": "systemd"}
    ),
    "a night with a gap and one time": Case(
        rule="02:30 Europe/Berlin", start=BEFORE_SPRING, runtime=minutes(20)
    ),
}


USUAL = {
    "what runs long is skipped, and what was missed is made up for once",
    "the newest waits",
    "who waits too long hurries",
    "what is too late runs",
    "a fixed delay",
    "a night with a gap and one time",
}
another_night = pytest.mark.thorough("repeats with other policies, a second each")


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, id=name, marks=[] if name in USUAL else [another_night])
        for name, case in CASES.items()
    ],
)
def test_what_is_simulated_is_what_happens(case: Case) -> None:
    plan, happened, runs = lived(case)
    story = told(plan, case)
    assert [
        (
            moment.due_at,
            moment.covers_from,
            moment.count,
            ledger_word(moment),
            ledger_reason(moment),
        )
        for moment in story.moments
    ] == happened
    assert happened
    assert runs == [
        (moment.due_at, on_the_grid(one.start, case), on_the_grid(one.end, case))
        for moment in sorted(story.moments, key=lambda moment: moment.starts_at or case.start)
        for one in moment.attempts
    ]


def lived(case: Case) -> tuple[Plan, list[tuple[Any, ...]], list[tuple[datetime, ...]]]:
    """The plan, what the ledger of a sandbox says of its moments, and when which of them ran."""
    app, runs = Duly(zone="UTC"), list[tuple[datetime, ...]]()

    @app.schedule(case.rule, name="work", **case.words)
    @app.task
    def work() -> None:
        begun = box.now
        if begun < over:  # or else there is always another one that waits
            box.travel(case.runtime)
        runs.append((current().due_at, begun, box.now))

    over = case.end + (case.end - case.start)
    spaced = case.rule.startswith("spaced")
    with Sandbox(app, now=case.start if spaced else case.start - MOMENT) as box:
        plan = app.schedules.get("work").plan
        box.travel(case.start, down=True)
        while box.now < over:
            outage = next((o for o in case.down if o.start <= box.now < o.end), None)
            if outage is not None:
                box.travel(outage.end, down=True)
            box.travel("0s")
            if box.jobs("state:ready"):
                box.run()
            box.travel(on_the_grid(box.now + MOMENT, case) - box.now)
        fires = [fire for fire in box.fires("work") if fire.due_at < case.end]
    seen = {fire.due_at for fire in fires}
    return (
        plan,
        [(f.due_at, f.covers_from, f.count, f.outcome, without_numbers(f.reason)) for f in fires],
        sorted((run for run in runs if run[0] in seen), key=lambda run: run[1]),
    )


def told(plan: Plan, case: Case) -> Story:
    return asyncio.run(
        simulate(
            WhatIf(
                plan=plan, start=case.start, end=case.end, outages=case.down, runtime=case.runtime
            )
        )
    )


def on_the_grid(moment: datetime, case: Case) -> datetime:
    """When the sandbox looks whether something is ready."""
    return moment + (case.start - moment) % STEP


def ledger_word(moment: StoryMoment) -> str:
    return moment.outcome if moment.outcome in ("merged", "skipped") else "queued"


def ledger_reason(moment: StoryMoment) -> str:
    return moment.why.removesuffix("; not started by its deadline")


def without_numbers(reason: str) -> str:
    return re.sub(r" \(job \d+\)", "", reason)

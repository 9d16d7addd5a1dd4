"""Examples of a schedule's policies, each made by a simulation.

The examples fit the rule of the schedule: an outage that covers a few of its moments, and a run
that outlasts a few. The scheduler's own code decides what happens in them.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from duly.durations import about, show_duration, usual_runtime
from duly.errors import DulyError
from duly.instants import floored
from duly.model.schedule import Plan
from duly.policy.why import LocalClock
from duly.rehearse.simulation import simulate
from duly.rehearse.story import Outage, Story, WhatIf
from duly.rules import Rule
from duly.store.store import Store
from duly.views.schedules import own_zone

SHOWN: Final = 6  # moments in an example
SHORTEST: Final = timedelta(milliseconds=1)
A_PART: Final = 0.15  # of the time between two moments: the assumed run time if unknown
A_LARGE_PART: Final = 0.4
FAR: Final = timedelta(days=366 * 20)


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    title: str  # the assumption
    policy: str  # which policy decides, as in code
    sentence: str  # the result
    story: Story


async def examples(store: Store, name: str, *, now: datetime) -> list[Example]:
    """Return examples of an outage and of a long run; none for rules with too few moments."""
    schedule = await store.schedules.get(name)
    usual = usual_runtime(await store.activity.past_runs(schedule.id))
    return await examples_of(schedule.plan, now=now, usual=usual)


async def examples_of(plan: Plan, *, now: datetime, usual: timedelta | None) -> list[Example]:
    plan = replace(plan, policies=replace(plan.policies, jitter=None))  # it would blur the example
    moments = _moments(plan, now)
    if len(moments) < SHOWN:
        return []
    gap = moments[1] - moments[0]
    # Short enough to end before the outage: the example is not about lost jobs.
    runtime = min(max(usual or gap * A_PART, SHORTEST), gap * A_LARGE_PART)
    return [await _outage(plan, moments, runtime, now=now), await _overlap(plan, moments)]


def _moments(plan: Plan, now: datetime) -> Sequence[datetime]:
    try:
        kept = plan.kept
        return list(kept.between(now, now + FAR, SHOWN + 1)) if isinstance(kept, Rule) else ()
    except DulyError:
        return ()


async def _outage(
    plan: Plan, moments: Sequence[datetime], runtime: timedelta, *, now: datetime
) -> Example:
    """Suppose an outage from before the second due moment until after the fourth."""
    gap = moments[1] - moments[0]
    down = _round(moments[0] + gap * 0.6, gap)
    up = _round(moments[3] + (moments[4] - moments[3]) * 0.4, gap)
    missed, clock = plan.policies.missed, LocalClock(own_zone(plan) or "UTC", now)
    within = plan.policies.start_within
    late = f', start_within="{show_duration(within)}"' if within else ""
    return await _example(
        title=f"Down from {clock.near(down)} to {clock.near(up)}",
        policy=f'missed="{missed.policy}"{late}',
        what=_what(plan, moments, runtime=runtime, outages=[Outage(down, up)]),
    )


async def _overlap(plan: Plan, moments: Sequence[datetime]) -> Example:
    """Suppose runs that take two and a half times the gap between moments."""
    runtime = (moments[1] - moments[0]) * 2.5
    return await _example(
        title=f"Each run takes {about(runtime)}",
        policy=f'overlap="{plan.policies.overlap}"',
        what=_what(plan, moments, runtime=runtime),
    )


def _what(
    plan: Plan,
    moments: Sequence[datetime],
    *,
    runtime: timedelta,
    outages: Sequence[Outage] = (),
) -> WhatIf:
    before = (moments[1] - moments[0]) * 0.25
    last = moments[SHOWN - 1]
    return WhatIf(
        plan=plan,
        start=moments[0] - before,
        end=last + before,
        runtime=runtime,
        outages=outages,
    )


def _round(moment: datetime, gap: timedelta) -> datetime:
    """Round a time down to the hour, minute or second if the gap between moments is much longer."""
    step = next((one for one in _STEPS if one <= gap / 12), timedelta.resolution)
    return floored(moment, step)


_STEPS: Final = tuple(timedelta(seconds=n) for n in (3_600, 60, 1))


async def _example(*, title: str, policy: str, what: WhatIf) -> Example:
    story = await simulate(what)
    sentence = story.sentence[:1].upper() + story.sentence[1:] + "."
    return Example(title=title, policy=policy, sentence=sentence, story=story)

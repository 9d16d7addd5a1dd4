"""Nodes are killed at random moments, or their database is; and every due moment is accounted for.

The pause between two blows is random: a fixed one falls into step with schedules that are due each
second, and then interrupts nothing.
"""

import asyncio
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import TypeAlias

from duly.clock import boottime, now, sleep
from tests.acceptance.fleet import Fleet, common, fleet, until
from tests.acceptance.ledger import (
    every_second,
    judge_accounts,
    judge_every_moment,
    over,
    say_lateness,
)
from tests.acceptance.report import Report
from tests.infrastructure.cluster import Cluster

Blow: TypeAlias = Callable[[Fleet], None]

# How late the latest in a hundred may begin: behind a kill, and behind a restart of the database.
AFTER_A_KILL, AFTER_A_RESTART = 1.5, 4.0
AWAY = 2.0
# How soon something runs once the database is back.
BACK = 2.0


@dataclass(frozen=True, slots=True)
class Weather:
    seconds: float = 90.0
    pause: float = 2.0
    schedules: int = 20
    nodes: int = 3
    aim: float | None = None  # so close to a whole second, when schedules are due, every blow falls


async def nodes_are_killed(url: str, folder: Path, *, weather: Weather) -> Report:
    """Every moment has to run."""
    return await storm(url, folder, weather=weather, blow=kill_one, most=AFTER_A_KILL)


async def nodes_are_killed_under_the_defaults(
    url: str, folder: Path, *, weather: Weather
) -> Report:
    """Moments may be skipped or merged, but not forgotten; and no schedule overlaps itself."""
    return await storm(url, folder, weather=weather, blow=kill_one, most=None)


async def the_database_crashes(
    url: str, folder: Path, *, cluster: Cluster, weather: Weather
) -> Report:
    """The database is stopped at once, is away for up to two seconds, and no node ends."""
    back, away = list[datetime](), list[timedelta]()

    def blow(_: Fleet) -> None:
        gone = now()
        cluster.stop()
        asyncio.run(sleep(random.uniform(0, AWAY)))
        cluster.start()
        back.append(now())
        away.append(back[-1] - gone)

    report = await storm(url, folder, weather=weather, blow=blow, most=AFTER_A_RESTART)
    begun = [line.at for line in Fleet(url, folder / "witness").lines("begin")]
    after = [
        min(at for at in begun if at > moment) - moment for moment in back if moment < begun[-1]
    ]
    report.must(after, "nothing ran once it was back")
    report.say(f"away for up to {max(away).total_seconds():.1f} s")
    longest = max(after, default=timedelta.max).total_seconds()
    report.within(longest, BACK, "the first run once it was back")
    return report


def kill_one(there: Fleet) -> None:
    there.kill(random.choice(there.members))
    there.start()


async def storm(
    url: str,
    folder: Path,
    *,
    weather: Weather,
    blow: Blow,
    most: float | None,
    lease: float = 15.0,
    ways: Sequence[str] = (),
    clocks: Sequence[Path] = (),
) -> Report:
    """``most`` is how late a moment may be that has to run; None: it need not."""
    report = Report()
    async with fleet(url, folder, nodes=weather.nodes, lease=lease, ways=ways, clocks=clocks) as (
        there,
        store,
    ):
        end = now() + timedelta(seconds=weather.seconds)
        plans = every_second(weather.schedules, end=end, everything=most is not None)
        added = await store.schedules.add(plans)
        blows = await _rage(there, blow, weather=weather, report=report)
        report.say(f"{blows} blows")
        report.must(blows, "no storm")
        await until(lambda: over(store), seconds=60)
        if most is None:
            await judge_accounts(store, added, there, report=report)
        else:
            await judge_every_moment(store, added, there, report=report)
            say_lateness(there, report, most=most)
        return common(there, report)


async def _rage(there: Fleet, blow: Blow, *, weather: Weather, report: Report) -> int:
    blows, end = 0, boottime() + weather.seconds
    while (left := end - boottime()) > 0:
        await sleep(min(left, _pause(weather)))
        report.must(not there.gone(), "a node ended by itself")
        if boottime() < end:
            await asyncio.to_thread(blow, there)
            blows += 1
    return blows


def _pause(weather: Weather) -> float:
    if weather.aim is None:
        return random.uniform(0.5, 1.5) * weather.pause
    to_the_second = 1 - now().microsecond / 1_000_000
    wanted = to_the_second + random.uniform(-weather.aim, weather.aim)
    return wanted if wanted > weather.aim else wanted + 1

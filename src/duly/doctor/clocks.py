"""Checks of clocks, time zone data, and overdue moments."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from duly import clock as wall
from duly.doctor.finding import Finding, Patient, fine, problem, warning
from duly.model.schedule import PROMPT
from duly.policy.why import about
from duly.policy.why.answer import plural
from duly.rules import zone_data_version
from duly.store.connect import is_postgres, is_remote
from duly.store.values import OVERDUE, StoreProgress

ROUND_TRIPS: Final = 5
SKEW_SEEN: Final = timedelta(seconds=1)
SKEW_BAD: Final = timedelta(seconds=30)
REWIND: Final = "duly schedules rewind --ahead"
RESTS: Final = "fired while the clock was ahead, and silent until the clock reaches that time again"
SET_CLOCK: Final = "synchronize the clock over the network: timedatectl set-ntp true, or chrony"


@dataclass(frozen=True, slots=True)
class Reading:
    """One reading of the store's clock: its time, and when and how fast it answered."""

    asked_at: datetime  # on this machine's clock
    round_trip: timedelta
    said: datetime

    @property
    def ahead(self) -> timedelta:
        """Return how far the store's clock is ahead, if both directions took equally long."""
        return self.said - (self.asked_at + self.round_trip / 2)


async def clock(patient: Patient) -> Finding:
    around = patient.store.surroundings
    readings = [await _read(patient) for _ in range(ROUND_TRIPS)]
    set_back = judge_newest(await around.newest(), readings[-1].said)
    if set_back is not None or not is_postgres(patient.url):
        whose = "" if is_remote(patient.url) else "the database uses this machine's clock, and "
        return set_back or fine(f"{whose}nothing in it is from the future")
    return judge_skew(readings)


async def _read(patient: Patient) -> Reading:
    asked_at, began = wall.now(), wall.boottime()
    said = await patient.store.surroundings.now()
    return Reading(asked_at, timedelta(seconds=wall.boottime() - began), said)


def judge_skew(readings: Sequence[Reading]) -> Finding:
    """Judge the clock skew by the fastest reading.

    Half of its round trip is not counted as skew.
    """
    best = min(readings, key=lambda reading: reading.round_trip)
    skew = max(abs(best.ahead) - best.round_trip / 2, timedelta())
    which = "behind" if best.ahead > timedelta() else "ahead of"
    said = f"this machine's clock is {about(skew)} {which} the database's"
    if skew >= SKEW_BAD:
        return problem(f"{said}, which duly uses", SET_CLOCK)
    if skew >= SKEW_SEEN:
        return warning(f"{said}, which duly uses", SET_CLOCK)
    within = abs(best.ahead) + best.round_trip / 2
    return fine(f"this machine and the database agree within {about(within)}")


def judge_newest(newest: datetime | None, now: datetime) -> Finding | None:
    """Report a stored timestamp that is in the future: a clock was ahead, or was set back."""
    if newest is None or newest - now < SKEW_SEEN:
        return None
    return problem(
        f"a row was written {about(newest - now)} in the future: the database's clock was ahead "
        "then, or was set back since",
        f"{SET_CLOCK}; then let the schedules that were fired too early continue: {REWIND}",
    )


async def zone_data(patient: Patient) -> Finding:
    return judge_zone_data(await patient.store.surroundings.zone_data(), zone_data_version())


def judge_zone_data(used: Mapping[str, int], here: str) -> Finding:
    """Compare the zone data of nodes, which store their release with each moment they compute."""
    others = {release: count for release, count in sorted(used.items()) if release != here}
    if not others:
        return fine(f"release {here}, on this machine and in every schedule")
    listed = ", ".join(f"{release} ({plural(n, 'schedule')})" for release, n in others.items())
    said = f"release {here} on this machine, but other nodes have other releases: {listed}"
    if max(others) > here:
        return warning(
            said, 'on every node with older data, including this one: pip install -U "tzdata"'
        )
    return warning(
        said,
        "no scheduler with this machine's release has run since: start one (duly up), and on the "
        'nodes with older data: pip install -U "tzdata"',
    )


async def moments(patient: Patient) -> Finding:
    return judge_moments(await patient.store.upkeep.progress())


def judge_moments(progress: StoreProgress) -> Finding:
    """Report the oldest moment that no scheduler has fired, and the oldest job not made ready."""
    start = "no scheduler is running, or it cannot keep up: duly up, or duly scheduler"
    unfired = progress.oldest_unfired
    if unfired is not None and progress.now - unfired > PROMPT:
        return problem(
            f"the oldest overdue run was due {_at(unfired, progress)} and no scheduler has fired "
            "it",
            start,
        )
    waiting = progress.oldest_undispatched
    if waiting is not None and progress.now - waiting > OVERDUE:
        return problem(
            f"a job was due {_at(waiting, progress)} and no scheduler has made it ready", start
        )
    if progress.ahead:
        return problem(
            f"{plural(len(progress.ahead), 'schedule')} {RESTS}: {', '.join(progress.ahead[:5])}",
            f"when the clock is right: {REWIND}",
        )
    return fine("nothing is overdue")


def _at(moment: datetime, progress: StoreProgress) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC ({about(progress.now - moment)} ago)"

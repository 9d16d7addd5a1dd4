"""The policies of a schedule: overlap, missed runs, lateness, clock changes, bounds and retries.

Each is a word or a number with a safe default. They are stored as JSON, so that a newer version can
add one: an older node ignores a policy that it does not know.
"""

import json
from dataclasses import dataclass, field, fields
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any, Literal, get_args

from duly.durations import parse_duration, show_duration
from duly.errors import InvalidValue
from duly.instants import BEGINNING, HORIZON
from duly.model.payload import Json, check_json, decode

Overlap = Literal["skip", "queue_one", "queue_all", "replace", "allow"]
Catchup = Literal["latest", "all", "skip"]
Late = Literal["skip", "run", "hurry"]

AT_MOST = 100
LONGEST = timedelta(days=36_500)  # as long as any length that can be written
MOST_AT_ONCE = 10_000
MOST_RUNS = 1_000_000_000


@dataclass(frozen=True, slots=True, init=False)
class Missed:
    """The catch-up policy: which missed moments still run.

    ``latest`` runs once for all of them; ``all`` runs the newest ``at_most``, and starts their jobs
    ``spacing`` apart; ``skip`` runs none older than ``grace``.
    """

    policy: Catchup
    at_most: int
    spacing: timedelta | None
    grace: timedelta

    def __init__(
        self,
        policy: Catchup = "latest",
        *,
        at_most: int = AT_MOST,
        spacing: str | timedelta | None = None,
        grace: str | timedelta = "60s",
    ) -> None:
        choose("missed", policy, Catchup)
        if type(at_most) is not int or not 1 <= at_most <= MOST_AT_ONCE:
            raise InvalidValue(
                f"at_most={at_most!r}: expected 1 to {MOST_AT_ONCE:,} missed runs to catch up"
            )
        lengths = {"spacing": spacing, "grace": grace}
        for what, said in lengths.items():
            lengths[what] = parse_duration(said) if isinstance(said, str) else said
            if said is not None:
                check_length(what, lengths[what])
        for name, value in {"policy": policy, "at_most": at_most, **lengths}.items():
            object.__setattr__(self, name, value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Policies:
    """All policies of a schedule."""

    overlap: Overlap = "skip"
    missed: Missed = field(default_factory=Missed)
    start_within: timedelta | None = None
    late: Late = "skip"
    dst: str = "cron"
    exclude: str | None = None
    jitter: timedelta | None = None
    start: datetime | None = None
    end: datetime | None = None
    max_runs: int | None = None  # of the clock; then the schedule is finished
    first: Literal["now", "wait"] = "now"  # of a fixed delay: run at once, or after one delay
    retry: Json | None = None  # the retry policy of its jobs; the store does not read it

    def __post_init__(self) -> None:
        choose("overlap", self.overlap, Overlap)
        choose("late", self.late, Late)
        choose("first", self.first, Literal["now", "wait"])
        missed: object = self.missed
        if not isinstance(missed, Missed):
            choices = ", ".join(f'Missed("{choice}")' for choice in get_args(Catchup))
            raise InvalidValue(f"missed={missed!r}: choose one of {choices}")
        for what in _LENGTHS:
            if getattr(self, what) is not None:
                check_length(what, getattr(self, what))
        for what in _MOMENTS:
            if getattr(self, what) is not None:
                check_moment(what, getattr(self, what))
        if self.max_runs is not None:
            check_max_runs(self.max_runs)
        if self.retry is not None:
            check_options("retry", self.retry)

    def as_json(self) -> Json:
        """Return only what differs from the defaults, so that equal policies are equal texts."""
        return _written(self)

    @staticmethod
    def from_json(text: str) -> "Policies":
        return _read_policies(text)


_LENGTHS = tuple(one.name for one in fields(Policies) if one.type == timedelta | None)
_MOMENTS = tuple(one.name for one in fields(Policies) if one.type == datetime | None)


# Cached: a million schedules share a handful of policies.
@lru_cache(maxsize=4096)
def _written(policies: Policies) -> Json:
    default = Policies()
    chosen = {
        field.name: _plain(getattr(policies, field.name))
        for field in fields(Policies)
        if getattr(policies, field.name) != getattr(default, field.name)
    }
    return Json(json.dumps(chosen, sort_keys=True, separators=(",", ":")))


@lru_cache(maxsize=4096)
def _read_policies(text: str) -> Policies:
    found = json.loads(text)
    known = {field.name for field in fields(Policies)}
    return Policies(**{name: _read(name, found[name]) for name in found if name in known})


def choose(what: str, value: object, choices: object) -> None:
    """Refuse a word that is none of the choices."""
    possible = get_args(choices)
    if value not in possible:
        raise InvalidValue(f"{what}={value!r}: choose one of {', '.join(possible)}")


def check_max_runs(number: object) -> None:
    """Refuse a number of runs that no schedule can be limited to."""
    if type(number) is not int or not 1 <= number <= MOST_RUNS:
        raise InvalidValue(
            f"max_runs={number!r}: a whole number from 1; leave it out for a schedule without end"
        )


def check_length(what: str, length: object) -> None:
    """Refuse a length of time that cannot be stored."""
    if not isinstance(length, timedelta) or not timedelta(0) < length <= LONGEST:
        raise InvalidValue(
            f"{what}={length!r}: expected a duration above zero, up to {LONGEST.days:,} days, as "
            "timedelta(minutes=5)"
        )


def check_moment(what: str, moment: object) -> None:
    """Refuse a moment without a zone, or outside the years that rules know."""
    if not isinstance(moment, datetime):
        raise InvalidValue(
            f"{what}={moment!r}: expected a datetime with a zone, not {_kind(moment)}"
        )
    if moment.tzinfo is None:
        raise InvalidValue(f"{what}={moment} is naive and needs a zone: datetime(…, tzinfo=UTC)")
    if not BEGINNING <= moment < HORIZON:
        raise InvalidValue(f"{what}={moment}: expected a time from 1970 to 2199")


def check_options(what: str, text: object) -> None:
    """Refuse options that are not a JSON object; the store does not read them further."""
    if not isinstance(decode(check_json(text, what)), dict):
        raise InvalidValue(
            f"{what}={text!r}: expected a JSON object, as Retry(…).as_json() returns"
        )


def _kind(value: object) -> str:
    return type(value).__name__


def _plain(value: object) -> object:
    match value:
        case Missed():
            words = {"policy": value.policy, "at_most": value.at_most}
            return words | {"spacing": _plain(value.spacing), "grace": _plain(value.grace)}
        case timedelta():
            return show_duration(value)
        case datetime():
            return value.isoformat()
        case _:
            return value


def _read(name: str, value: Any) -> Any:  # noqa: ANN401 - JSON in, a field's type out
    match name:
        case "missed":
            return Missed(
                policy=value["policy"],
                at_most=value["at_most"],
                spacing=_duration(value["spacing"]),
                grace=parse_duration(value["grace"]),
            )
        case _ if name in _LENGTHS:
            return _duration(value)
        case _ if name in _MOMENTS:
            return None if value is None else datetime.fromisoformat(value)
        case _:
            return value


def _duration(text: str | None) -> timedelta | None:
    return None if text is None else parse_duration(text)

"""Filters for schedules: ``state:paused queue:mail owner:code nightly``.

The language is that of ``duly.model.job_filter``. There are few schedules beside jobs, so
each one is checked in Python; no index is needed.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from duly.errors import InvalidValue
from duly.model.job import Owner
from duly.model.job_filter import (
    LONGEST_TEXT,
    MOST_TEXTS,
    Language,
    Name,
    add_tag,
    check_name,
    fits,
    name_of,
    one_of,
    quoted,
    text_beside,
)
from duly.model.payload import check_text
from duly.model.schedule import StoredSchedule
from duly.rules.event_rule import BEGINNING

PAUSED, ACTIVE, FAULTY, FINISHED = "paused", "active", "faulty", "finished"
STATES: Final = (ACTIVE, PAUSED, FAULTY, FINISHED)
CLOCK, EVENT = "clock", "event"
STARTERS: Final = (CLOCK, EVENT)
_NAMES: Final = ("task", "queue", "tenant", "submitter")


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleFilter:
    """Conditions on schedules; all must hold. None, or an empty tuple, matches any schedule."""

    states: tuple[str, ...] = ()  # one of these; active means none of the others
    task: Name | None = None
    queue: Name | None = None
    tenant: Name | None = None
    submitter: Name | None = None
    owners: tuple[str, ...] = ()  # one of these
    starts: tuple[str, ...] = ()  # by one of these
    tags: tuple[str, ...] = ()  # all of these
    texts: tuple[str, ...] = ()  # each a part of the name or the title, in any case

    def __post_init__(self) -> None:
        for what in _NAMES:
            check_name(getattr(self, what), what)
        for tag in self.tags:
            check_text(tag, "tag")
        for text in self.texts:
            check_text(text, "text", longest=LONGEST_TEXT)
        if len(self.texts) > MOST_TEXTS or len(self.tags) > MOST_TEXTS:
            raise InvalidValue(f"a filter of more than {MOST_TEXTS} texts or tags: use fewer")

    def __str__(self) -> str:
        """Return text that parses back to the same filter."""
        said = [f"state:{','.join(self.states)}"] if self.states else []
        names = {what: getattr(self, what) for what in _NAMES}
        said += [f"{what}:{quoted(name)}" for what, name in names.items() if name is not None]
        said += [f"owner:{','.join(self.owners)}"] if self.owners else []
        said += [f"start:{','.join(self.starts)}"] if self.starts else []
        said += [f"tag:{quoted(tag)}" for tag in self.tags]
        return " ".join([*said, *(f"text:{quoted(text)}" for text in self.texts)])

    def means(self, schedule: StoredSchedule) -> bool:
        plan = schedule.plan
        about = f"{plan.name}\n{plan.title}".lower()
        return (
            (not self.states or not _states(schedule).isdisjoint(self.states))
            and all(fits(getattr(plan, what), getattr(self, what)) for what in _NAMES)
            and (not self.owners or plan.owner.value in self.owners)
            and (not self.starts or _starter(schedule) in self.starts)
            and set(self.tags) <= set(plan.tags)
            and all(text.lower() in about for text in self.texts)
        )


EVERY_SCHEDULE: Final = ScheduleFilter()


def parse_schedule_filter(text: str) -> ScheduleFilter:
    """Parse a filter; raise ``InvalidValue`` that names the first unknown word."""
    return ScheduleFilter(**_LANGUAGE.read(text))


def schedule_filter_of(arguments: Iterable[str]) -> ScheduleFilter:
    """Parse a filter from command-line arguments, which the shell has split and unquoted."""
    return ScheduleFilter(**_LANGUAGE.read_arguments(arguments))


def _states(schedule: StoredSchedule) -> set[str]:
    """Return the states of a schedule: it may be paused and faulty at once."""
    paused = {PAUSED} if schedule.pause is not None else set()
    faulty = {FAULTY} if schedule.fault is not None else set()
    return paused | faulty or {FINISHED if schedule.is_finished else ACTIVE}


def _starter(schedule: StoredSchedule) -> str:
    return EVENT if schedule.plan.rule.startswith(BEGINNING) else CLOCK


_LANGUAGE: Final = Language(
    {
        "state": one_of(STATES, "state of a schedule"),
        **{what: name_of("a schedule") for what in _NAMES},
        "owner": one_of([owner.value for owner in Owner], "owner"),
        "start": one_of(STARTERS, "way to start"),
        "tag": add_tag,
        "text": text_beside(STATES),
    }
)
WORDS: Final = tuple(_LANGUAGE.words)

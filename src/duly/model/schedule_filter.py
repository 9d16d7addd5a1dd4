"""Which schedules are meant, in words: ``state:paused queue:mail owner:code nightly``.

The language is that of ``duly.model.filter_language``. Schedules are few beside jobs, and each is
asked whether it is meant: there is nothing here that a store would have to find by an index.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from duly.errors import InvalidValue
from duly.model.filter_language import (
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
from duly.model.job import Owner
from duly.model.job_filter import LONGEST_TEXT, MOST_TEXTS
from duly.model.payload import check_text
from duly.model.schedule import StoredSchedule
from duly.rules.event_rule import BEGINNING

PAUSED, ACTIVE, FAULTY = "paused", "active", "faulty"
STATES: Final = (ACTIVE, PAUSED, FAULTY)
CLOCK, EVENT = "clock", "event"
STARTERS: Final = (CLOCK, EVENT)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleFilter:
    """What schedules have in common. None, or nothing at all, means any."""

    states: tuple[str, ...] = ()  # one of these; active is what is neither paused nor faulty
    task: Name | None = None
    queue: Name | None = None
    owners: tuple[str, ...] = ()  # one of these
    starts: tuple[str, ...] = ()  # by one of these
    tags: tuple[str, ...] = ()  # all of these
    texts: tuple[str, ...] = ()  # each a part of the name or the title, capital letters or not

    def __post_init__(self) -> None:
        for what in ("task", "queue"):
            check_name(getattr(self, what), what)
        for tag in self.tags:
            check_text(tag, "tag")
        for text in self.texts:
            check_text(text, "text", longest=LONGEST_TEXT)
        if len(self.texts) > MOST_TEXTS or len(self.tags) > MOST_TEXTS:
            raise InvalidValue(f"a filter of more than {MOST_TEXTS} texts or tags: say fewer")

    def __str__(self) -> str:
        """Words that read back to the same filter."""
        said = [f"state:{','.join(self.states)}"] if self.states else []
        said += [] if self.task is None else [f"task:{quoted(self.task)}"]
        said += [] if self.queue is None else [f"queue:{quoted(self.queue)}"]
        said += [f"owner:{','.join(self.owners)}"] if self.owners else []
        said += [f"start:{','.join(self.starts)}"] if self.starts else []
        said += [f"tag:{quoted(tag)}" for tag in self.tags]
        return " ".join([*said, *(f"text:{quoted(text)}" for text in self.texts)])

    def means(self, schedule: StoredSchedule) -> bool:
        plan = schedule.plan
        about = f"{plan.name}\n{plan.title}".lower()
        return (
            (not self.states or not _states(schedule).isdisjoint(self.states))
            and fits(plan.task, self.task)
            and fits(plan.queue, self.queue)
            and (not self.owners or plan.owner.value in self.owners)
            and (not self.starts or _starter(schedule) in self.starts)
            and set(self.tags) <= set(plan.tags)
            and all(text.lower() in about for text in self.texts)
        )


EVERY_SCHEDULE: Final = ScheduleFilter()


def parse_schedule_filter(text: str) -> ScheduleFilter:
    """The filter that a text means, or an ``InvalidValue`` that says which word is none."""
    return ScheduleFilter(**_LANGUAGE.read(text))


def schedule_filter_of(arguments: Iterable[str]) -> ScheduleFilter:
    """The same of words that a shell has split, and taken the quotes from."""
    return ScheduleFilter(**_LANGUAGE.read_arguments(arguments))


def _states(schedule: StoredSchedule) -> set[str]:
    """One that is paused may be faulty as well, and is found as either."""
    paused = {PAUSED} if schedule.pause is not None else set()
    faulty = {FAULTY} if schedule.fault is not None else set()
    return paused | faulty or {ACTIVE}


def _starter(schedule: StoredSchedule) -> str:
    return EVENT if schedule.plan.rule.startswith(BEGINNING) else CLOCK


_LANGUAGE: Final = Language(
    {
        "state": one_of(STATES, "state of a schedule"),
        "task": name_of("a schedule"),
        "queue": name_of("a schedule"),
        "owner": one_of([owner.value for owner in Owner], "owner"),
        "start": one_of(STARTERS, "way to start"),
        "tag": add_tag,
        "text": text_beside(STATES),
    }
)
WORDS: Final = tuple(_LANGUAGE.words)

"""Schedules that people add and edit, in their own name, on an open store.

The options of a plan are typed words, each optional. The same words make a new plan and change an
existing one.
"""

import os
from collections.abc import Mapping
from dataclasses import replace
from getpass import getuser
from typing import Any

from duly.app.plans import Timed, policies_of
from duly.app.schedules import Schedules
from duly.connection import OpenStore
from duly.model.job import Owner
from duly.model.payload import encode
from duly.model.policies import Missed, Policies
from duly.model.schedule import Plan
from duly.model.schedule_filter import EVERY_SCHEDULE, ScheduleFilter
from duly.registry.option_values import name_of, priority_of
from duly.store.store import Store
from duly.store.values import LaneInfo
from duly.views.schedules import Schedule, listed

__all__ = [
    "COMMAND",
    "MOST_LISTED",
    "LaneInfo",
    "changed_plan",
    "every_schedule",
    "login",
    "new_plan",
    "steered",
]

MOST_LISTED = 10_000
COMMAND = "duly.command"  # the built-in task that runs a program

_MISSED = ("missed", "at_most", "spacing")


def steered(store: Store) -> Schedules:
    """Return ``duly.schedules`` on this store; changes are recorded under its actor's name."""
    return Schedules(OpenStore(store), zone=None)


def login() -> str:
    """Return the name of the OS user, or the user's number if it has no name."""
    try:
        return getuser()
    except (KeyError, OSError):
        return f"user {os.getuid()}"


async def every_schedule(store: Store, wanted: ScheduleFilter = EVERY_SCHEDULE) -> list[Schedule]:
    """Matching schedules in name order, at most MOST_LISTED."""
    return await listed(store, wanted, after="", limit=MOST_LISTED)


def new_plan(
    name: str, rule: str, *, task: str, args: Mapping[str, object], words: Mapping[str, Any]
) -> Plan:
    """Make a plan that a person typed; ``words`` are options of the schedule and of its jobs."""
    return Plan(
        name=name_of("name", name),
        rule=rule,
        zone=words.get("zone"),
        task=task,
        args=encode(args),
        owner=Owner.PERSON,
        submitter=login(),
        policies=_policies(Policies(), words),
        **_label(words),
    )


def changed_plan(plan: Plan, rule: str | None, words: Mapping[str, Any]) -> Plan:
    """Return the plan with the given options changed and all others kept."""
    return replace(
        plan,
        rule=plan.rule if rule is None else rule,
        zone=words.get("zone", plan.zone),
        policies=_policies(plan.policies, words),
        **_label(words),
    )


def _policies(policies: Policies, words: Mapping[str, Any]) -> Policies:
    said = {
        word: value
        for word, value in words.items()
        if word in Timed.__annotations__ and word not in ("zone", "missed")
    }
    read = policies_of(said)
    chosen: dict[str, Any] = {word: getattr(read, word) for word in said}
    if any(word in words for word in _MISSED):
        chosen["missed"] = _missed(policies.missed, words)
    return replace(policies, **chosen)


def _missed(missed: Missed, words: Mapping[str, Any]) -> Missed:
    return Missed(
        words.get("missed", missed.policy),
        at_most=words.get("at_most", missed.at_most),
        spacing=words.get("spacing", missed.spacing),
        grace=missed.grace,
    )


def _label(words: Mapping[str, Any]) -> dict[str, Any]:
    label = {word: words[word] for word in ("queue", "title", "tags") if word in words}
    if "priority" in words:
        label["priority"] = priority_of(words["priority"])
    return label

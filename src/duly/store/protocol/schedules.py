"""Schedules, and the ledger of what became of their moments: what may be asked."""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Protocol

from duly.model.fire import Backfill, StoredFire
from duly.model.schedule import Plan, StoredSchedule
from duly.policy.firing import Firing
from duly.store.protocol.values import (
    Decide,
    Declared,
    Fired,
    Standing,
    Step,
    Trust,
    WantedSchedule,
)


class Schedules(Protocol):
    async def add(self, plans: Sequence[Plan]) -> list[StoredSchedule]:
        """Remember new schedules: all of them, or ``ScheduleExists`` and none."""
        ...

    async def get(self, name: str) -> StoredSchedule: ...

    async def page(self, *, after: str = "", limit: int = 100) -> list[StoredSchedule]:
        """By name, behind the name ``after``."""
        ...

    async def edit(self, name: str, change: Callable[[Plan], Plan]) -> StoredSchedule:
        """Change a plan. What was due before is decided by the old one; nothing becomes missed."""
        ...

    async def pause(
        self,
        name: str,
        *,
        until: datetime | None = None,
        note: str = "",
        catch_up: bool = False,
    ) -> StoredSchedule: ...

    async def resume(self, name: str) -> StoredSchedule: ...

    async def skip_next(self, name: str, *, count: int = 1) -> list[datetime]:
        """Enter the next moments that are not skipped into the ledger as such, ahead of time."""
        ...

    async def unskip(self, name: str) -> list[datetime]:
        """Take back every moment ahead that was skipped in advance; return these moments."""
        ...

    async def rewind(self, name: str, *, to: datetime) -> StoredSchedule:
        """Set the cursor back: the cure after a clock ran ahead. Nothing is fired twice."""
        ...

    async def run(self, name: str) -> StoredFire:
        """Fire once, now, beside the clock, under the schedule's own overlap policy."""
        ...

    async def backfill(
        self,
        name: str,
        *,
        since: datetime,
        until: datetime,
        again: bool = False,
        dry_run: bool = False,
    ) -> Backfill:
        """Make a job for each moment from ``since`` up to ``until`` that has had none, or for all.

        All of them or none; they are the rule's as it is now, and have passed.
        """
        ...

    async def remove(self, name: str) -> None: ...

    async def changes(self, name: str, *, limit: int = 100) -> list[tuple[datetime, str, str]]: ...

    async def declare(
        self,
        app: str,
        mark: str,
        wanted: Sequence[WantedSchedule],
        *,
        whole: bool = True,
        held: bool = False,
    ) -> Declared:
        """Say again and again which set of schedules an app's code has; the newest is written.

        Unless it is ``whole``, others may know more: it yields to them, and pauses nothing. Whoever
        has ``held`` the word before takes it back from an older set.
        """
        ...

    async def in_code(self, name: str) -> tuple[str, Plan] | None:
        """The app whose code declares a schedule, and as what; None: no code does."""
        ...

    async def removed(self) -> list[tuple[str, str]]:
        """The schedules, each with its app, that code declares and that somebody has removed."""
        ...

    async def applied(self, file: str) -> str | None:
        """The text that was last applied under this name."""
        ...

    async def standing(self, names: Sequence[str]) -> Standing:
        """The schedules of these names, and all queues and limits that were set."""
        ...

    async def apply(
        self, file: str, *, expected: str | None, record: str, steps: Sequence[Step]
    ) -> None:
        """Take all the steps, and remember ``record`` as applied; or ``WrongState``, and nothing.

        ``expected`` is the text that was applied last when the steps were planned.
        """
        ...


class Ledger(Protocol):
    async def fire(self, decide: Decide, *, limit: int, trust: Trust) -> Fired:
        """Claim due schedules, decide, and write fires, jobs and next moments in one go."""
        ...

    async def foresee(self, name: str, decide: Decide) -> Firing:
        """What firing now would do, without doing it."""
        ...

    async def refresh(self, *, after: int = 0, limit: int = 500) -> int | None:
        """Work next moments out anew that older zone data gave: where to go on, or None."""
        ...

    async def fires(
        self,
        name: str,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        limit: int = 100,
    ) -> list[StoredFire]:
        """The newest first."""
        ...

    async def latest(self, numbers: Sequence[int]) -> dict[int, StoredFire]:
        """Of each of these schedules, the moment that was dealt with last."""
        ...

    async def recent(
        self, numbers: Sequence[int], *, limit: int = 20
    ) -> dict[int, list[StoredFire]]:
        """Of each of them the last few, the newest first; an empty list where there are none."""
        ...

    async def skipped_ahead(self, numbers: Sequence[int]) -> dict[int, frozenset[datetime]]:
        """Of those of these schedules that have any, the moments to come that are skipped."""
        ...

    async def covering(self, name: str, moment: datetime) -> StoredFire | None:
        """The row that accounts for a due moment."""
        ...

"""``duly.schedules``: what is to run when, as it stands in the store, and what became of it."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, TypeVar, Unpack

from duly.app.backfill import Backfill, Wanted, backfill
from duly.app.changing import (
    IfExists,
    Stop,
    added,
    change_of,
    edited,
    paused,
    resumed,
    run,
    skipped,
    unskipped,
)
from duly.app.connections import awrite, write
from duly.app.home import Home
from duly.app.plans import RuleText, Startable, Timed, plan_of, rule_of
from duly.app.views import PAGE, Fire, Schedule, found, history, listed, preview
from duly.app.why import why_schedule
from duly.model.job import Owner
from duly.model.schedule_filter import parse_schedule_filter
from duly.registry.options import When
from duly.store.foreign import Verb, Work

T = TypeVar("T")

NOUN = "duly.schedules"


class Schedules:
    def __init__(self, home: Home, *, zone: str | None, who: str = "") -> None:
        self._home = home
        self._zone = zone
        self._who = who

    # Declare and change.

    def add(
        self,
        rule: RuleText,
        call: Startable,
        /,
        *,
        name: str | None = None,
        if_exists: IfExists = "error",
        connection: object | None = None,
        **words: Unpack[Timed],
    ) -> Schedule:
        """Remember a schedule. Its first moment is after now.

        ``if_exists="replace"`` changes one of that name to this; ``"keep"`` leaves it as it is. On
        a ``connection`` of yours it is part of your transaction; so is whatever else takes one.
        """
        adding = self._adding(rule, call, name=name, if_exists=if_exists, words=words)
        return write(self._home, adding, _add(if_exists), connection=connection)

    async def aadd(
        self,
        rule: RuleText,
        call: Startable,
        /,
        *,
        name: str | None = None,
        if_exists: IfExists = "error",
        connection: object | None = None,
        **words: Unpack[Timed],
    ) -> Schedule:
        adding = self._adding(rule, call, name=name, if_exists=if_exists, words=words)
        return await awrite(self._home, adding, _add(if_exists), connection=connection)

    def edit(
        self,
        name: str,
        /,
        *,
        rule: RuleText | None = None,
        connection: object | None = None,
        **words: Unpack[Timed],
    ) -> Schedule:
        """Change what is said, and nothing else. An edit never makes moments missed."""
        change = change_of(rule, words)
        return self._do(
            "edit", lambda store: edited(store, name, change, who=self._who), connection
        )

    async def aedit(
        self,
        name: str,
        /,
        *,
        rule: RuleText | None = None,
        connection: object | None = None,
        **words: Unpack[Timed],
    ) -> Schedule:
        change = change_of(rule, words)
        return await self._ado(
            "edit", lambda store: edited(store, name, change, who=self._who), connection
        )

    def remove(self, name: str, /, *, connection: object | None = None) -> None:
        """Forget the schedule, with what became of its moments; its jobs stay."""
        self._do("remove", lambda store: store.schedules.remove(name, who=self._who), connection)

    async def aremove(self, name: str, /, *, connection: object | None = None) -> None:
        await self._ado(
            "remove", lambda store: store.schedules.remove(name, who=self._who), connection
        )

    def pause(
        self,
        name: str,
        /,
        *,
        until: When | None = None,
        note: str = "",
        catch_up: bool = False,
        connection: object | None = None,
    ) -> Schedule:
        """Fire nothing. Moments that pass meanwhile are skipped, unless they are to catch up."""
        wanted = Stop(until=until, note=note, catch_up=catch_up)
        return self._do(
            "pause", lambda store: paused(store, name, wanted, who=self._who), connection
        )

    async def apause(
        self,
        name: str,
        /,
        *,
        until: When | None = None,
        note: str = "",
        catch_up: bool = False,
        connection: object | None = None,
    ) -> Schedule:
        wanted = Stop(until=until, note=note, catch_up=catch_up)
        return await self._ado(
            "pause", lambda store: paused(store, name, wanted, who=self._who), connection
        )

    def resume(self, name: str, /, *, connection: object | None = None) -> Schedule:
        return self._do("resume", lambda store: resumed(store, name, who=self._who), connection)

    async def aresume(self, name: str, /, *, connection: object | None = None) -> Schedule:
        return await self._ado(
            "resume", lambda store: resumed(store, name, who=self._who), connection
        )

    def skip_next(
        self, name: str, /, *, count: int = 1, connection: object | None = None
    ) -> list[datetime]:
        """Leave the next moments out: which they are."""
        return self._do(
            "skip_next", lambda store: skipped(store, name, count, who=self._who), connection
        )

    async def askip_next(
        self, name: str, /, *, count: int = 1, connection: object | None = None
    ) -> list[datetime]:
        return await self._ado(
            "skip_next", lambda store: skipped(store, name, count, who=self._who), connection
        )

    def unskip(self, name: str, /, *, connection: object | None = None) -> list[datetime]:
        """Take back every moment ahead that was skipped in advance; return these moments."""
        return self._do("unskip", lambda store: unskipped(store, name, who=self._who), connection)

    async def aunskip(self, name: str, /, *, connection: object | None = None) -> list[datetime]:
        return await self._ado(
            "unskip", lambda store: unskipped(store, name, who=self._who), connection
        )

    def run(self, name: str, /, *, connection: object | None = None) -> Fire:
        """Run it once, now, beside the clock and under its own overlap policy."""
        return self._do("run", lambda store: run(store, name, who=self._who), connection)

    async def arun(self, name: str, /, *, connection: object | None = None) -> Fire:
        return await self._ado("run", lambda store: run(store, name, who=self._who), connection)

    def backfill(
        self,
        name: str,
        /,
        start: datetime,
        end: datetime,
        *,
        dry_run: bool = False,
        again: bool = False,
    ) -> Backfill:
        """Run its moments from ``start`` up to ``end`` that have not run; ``again``: all of them.

        ``end`` is not part of it, and not later than now. All of them are queued, or none: it can
        be repeated. ``dry_run`` says what would be done.
        """
        wanted = Wanted(name, start, end, dry_run, again)
        return self._home.call(
            lambda store: backfill(store, wanted, who=self._who), twin="duly.schedules.abackfill()"
        )

    async def abackfill(
        self,
        name: str,
        /,
        start: datetime,
        end: datetime,
        *,
        dry_run: bool = False,
        again: bool = False,
    ) -> Backfill:
        wanted = Wanted(name, start, end, dry_run, again)
        return await backfill(await self._home.store(), wanted, who=self._who)

    # Ask.

    def get(self, name: str, /) -> Schedule:
        return self._home.call(lambda store: found(store, name), twin="duly.schedules.aget()")

    async def aget(self, name: str, /) -> Schedule:
        return await found(await self._home.store(), name)

    def list(
        self, words: str = "", /, *, after: str = "", limit: int = PAGE
    ) -> "Sequence[Schedule]":
        """Schedules that match, as ``"state:paused queue:mail nightly"``; without words, all.

        By name, behind the name ``after``.
        """
        wanted = parse_schedule_filter(words)
        return self._home.call(
            lambda store: listed(store, wanted, after=after, limit=limit),
            twin="duly.schedules.alist()",
        )

    async def alist(
        self, words: str = "", /, *, after: str = "", limit: int = PAGE
    ) -> "Sequence[Schedule]":
        wanted = parse_schedule_filter(words)
        return await listed(await self._home.store(), wanted, after=after, limit=limit)

    def history(
        self,
        name: str,
        /,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        limit: int = 100,
    ) -> "Sequence[Fire]":
        """What became of its due moments, the newest first."""
        return self._home.call(
            lambda store: history(store, name, since=since, until=until, limit=limit),
            twin="duly.schedules.ahistory()",
        )

    async def ahistory(
        self,
        name: str,
        /,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        limit: int = 100,
    ) -> "Sequence[Fire]":
        store = await self._home.store()
        return await history(store, name, since=since, until=until, limit=limit)

    def preview(self, name: str, /, *, count: int = 10) -> "Sequence[datetime]":
        """Its next moments, if nothing changes."""
        return self._home.call(
            lambda store: preview(store, name, count), twin="duly.schedules.apreview()"
        )

    async def apreview(self, name: str, /, *, count: int = 10) -> "Sequence[datetime]":
        return await preview(await self._home.store(), name, count)

    def why(self, name: str, /, at: datetime | str | None = None) -> str:
        """What became of a due moment, and why: the latest, or the one ``at`` a time."""
        return self._home.call(
            lambda store: why_schedule(store, name, at), twin="duly.schedules.awhy()"
        )

    async def awhy(self, name: str, /, at: datetime | str | None = None) -> str:
        return await why_schedule(await self._home.store(), name, at)

    # How.

    def _adding(
        self,
        rule: RuleText,
        call: Startable,
        *,
        name: str | None,
        if_exists: IfExists,
        words: Mapping[str, Any],
    ) -> Work[Schedule]:
        rule_of(rule, said=f"{NOUN}.add({rule!r})")
        plan = plan_of(rule, call, name=name, zone=self._zone, owner=Owner.API, words=words)
        return lambda store: added(store, plan, if_exists, who=self._who)

    def _do(self, verb: str, work: Work[T], connection: object | None) -> T:
        return write(self._home, work, Verb(NOUN, verb), connection=connection)

    async def _ado(self, verb: str, work: Work[T], connection: object | None) -> T:
        return await awrite(self._home, work, Verb(NOUN, verb), connection=connection)


def _add(if_exists: IfExists) -> Verb:
    return Verb(NOUN, "add", decides=if_exists == "replace")

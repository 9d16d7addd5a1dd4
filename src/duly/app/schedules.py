"""``duly.schedules``: the schedules in the store, and the history of their runs."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Literal, TypeAlias, TypeVar, Unpack

from duly.app.plans import RuleText, Startable, Timed, plan_of, policies_of, refuse_unknown, rule_of
from duly.connection import LazyStore, awrite, write
from duly.errors import InvalidValue, ScheduleExists, WrongState
from duly.model.fire import Backfill
from duly.model.job import Owner
from duly.model.schedule import Plan
from duly.model.schedule_filter import parse_schedule_filter
from duly.policy.backfill import check_stretch
from duly.registry.option_values import When, when_of
from duly.store.foreign import Verb, Work
from duly.store.store import Store
from duly.views.fires import Fire, history
from duly.views.schedules import PAGE, Schedule, found, listed, preview
from duly.views.why import why_schedule

IfExists: TypeAlias = Literal["error", "replace", "keep"]
Change: TypeAlias = Callable[[Plan], Plan]


T = TypeVar("T")

NOUN = "duly.schedules"


class Schedules:
    def __init__(self, lazy: LazyStore, *, zone: str | None) -> None:
        self._lazy = lazy
        self._zone = zone

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
        """Add a schedule. Its first due moment is after now.

        ``if_exists="replace"`` replaces an existing schedule of that name; ``"keep"`` keeps it.
        With your ``connection`` it is part of your transaction; this holds for all methods that
        take one.
        """
        adding = self._adding(rule, call, name=name, if_exists=if_exists, words=words)
        return write(self._lazy, adding, _add(if_exists), connection=connection)

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
        return await awrite(self._lazy, adding, _add(if_exists), connection=connection)

    def edit(
        self,
        name: str,
        /,
        *,
        rule: RuleText | None = None,
        connection: object | None = None,
        **words: Unpack[Timed],
    ) -> Schedule:
        """Change only the options that are given. An edit never makes a run count as missed."""
        change = change_of(rule, words)
        return self._do("edit", lambda store: edited(store, name, change), connection)

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
        return await self._ado("edit", lambda store: edited(store, name, change), connection)

    def remove(self, name: str, /, *, connection: object | None = None) -> None:
        """Delete the schedule and its history; its jobs stay."""
        self._do("remove", lambda store: store.schedules.remove(name), connection)

    async def aremove(self, name: str, /, *, connection: object | None = None) -> None:
        await self._ado("remove", lambda store: store.schedules.remove(name), connection)

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
        """Pause the schedule. Moments that pass meanwhile are skipped, unless it is to catch up."""
        wanted = PauseRequest(until=until, note=note, catch_up=catch_up)
        return self._do("pause", lambda store: paused(store, name, wanted), connection)

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
        wanted = PauseRequest(until=until, note=note, catch_up=catch_up)
        return await self._ado("pause", lambda store: paused(store, name, wanted), connection)

    def resume(self, name: str, /, *, connection: object | None = None) -> Schedule:
        return self._do("resume", lambda store: resumed(store, name), connection)

    async def aresume(self, name: str, /, *, connection: object | None = None) -> Schedule:
        return await self._ado("resume", lambda store: resumed(store, name), connection)

    def skip_next(
        self, name: str, /, *, count: int = 1, connection: object | None = None
    ) -> list[datetime]:
        """Skip the next runs and return their due moments."""
        return self._do("skip_next", lambda store: skipped(store, name, count), connection)

    async def askip_next(
        self, name: str, /, *, count: int = 1, connection: object | None = None
    ) -> list[datetime]:
        return await self._ado("skip_next", lambda store: skipped(store, name, count), connection)

    def unskip(self, name: str, /, *, connection: object | None = None) -> list[datetime]:
        """Take back every moment ahead that was skipped in advance; return these moments."""
        return self._do("unskip", lambda store: unskipped(store, name), connection)

    async def aunskip(self, name: str, /, *, connection: object | None = None) -> list[datetime]:
        return await self._ado("unskip", lambda store: unskipped(store, name), connection)

    def run(self, name: str, /, *, connection: object | None = None) -> Fire:
        """Run it once, now, beside the clock and under its own overlap policy."""
        return self._do("run", lambda store: run(store, name), connection)

    async def arun(self, name: str, /, *, connection: object | None = None) -> Fire:
        return await self._ado("run", lambda store: run(store, name), connection)

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
        """Run the due moments from ``start`` up to ``end`` that have not run; ``again`` runs all.

        ``end`` is excluded, and not later than now. Either all runs are queued or none, so a
        backfill can be repeated. ``dry_run`` returns what would be done.
        """
        wanted = BackfillRequest(name, start, end, dry_run, again)
        return self._lazy.call(
            lambda store: backfill(store, wanted), twin="duly.schedules.abackfill()"
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
        wanted = BackfillRequest(name, start, end, dry_run, again)
        return await backfill(await self._lazy.store(), wanted)

    # Ask.

    def get(self, name: str, /) -> Schedule:
        return self._lazy.call(lambda store: found(store, name), twin="duly.schedules.aget()")

    async def aget(self, name: str, /) -> Schedule:
        return await found(await self._lazy.store(), name)

    def list(
        self, words: str = "", /, *, after: str = "", limit: int = PAGE
    ) -> "Sequence[Schedule]":
        """Return matching schedules, as ``"state:paused queue:mail nightly"``; by default, all.

        They come in name order, starting after the cursor ``after``.
        """
        wanted = parse_schedule_filter(words)
        return self._lazy.call(
            lambda store: listed(store, wanted, after=after, limit=limit),
            twin="duly.schedules.alist()",
        )

    async def alist(
        self, words: str = "", /, *, after: str = "", limit: int = PAGE
    ) -> "Sequence[Schedule]":
        wanted = parse_schedule_filter(words)
        return await listed(await self._lazy.store(), wanted, after=after, limit=limit)

    def history(
        self,
        name: str,
        /,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        limit: int = 100,
    ) -> "Sequence[Fire]":
        """Return the runs of a schedule and their results, newest first."""
        return self._lazy.call(
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
        store = await self._lazy.store()
        return await history(store, name, since=since, until=until, limit=limit)

    def preview(self, name: str, /, *, count: int = 10) -> "Sequence[datetime]":
        """Return the next due moments, if nothing changes."""
        return self._lazy.call(
            lambda store: preview(store, name, count), twin="duly.schedules.apreview()"
        )

    async def apreview(self, name: str, /, *, count: int = 10) -> "Sequence[datetime]":
        return await preview(await self._lazy.store(), name, count)

    def why(self, name: str, /, at: datetime | str | None = None) -> str:
        """Explain the result of a run: the latest one, or the one ``at`` a time."""
        return self._lazy.call(
            lambda store: why_schedule(store, name, at), twin="duly.schedules.awhy()"
        )

    async def awhy(self, name: str, /, at: datetime | str | None = None) -> str:
        return await why_schedule(await self._lazy.store(), name, at)

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
        return lambda store: added(store, plan, if_exists)

    def _do(self, verb: str, work: Work[T], connection: object | None) -> T:
        return write(self._lazy, work, Verb(NOUN, verb), connection=connection)

    async def _ado(self, verb: str, work: Work[T], connection: object | None) -> T:
        return await awrite(self._lazy, work, Verb(NOUN, verb), connection=connection)


def _add(if_exists: IfExists) -> Verb:
    return Verb(NOUN, "add", decides=if_exists == "replace")


@dataclass(frozen=True, slots=True, kw_only=True)
class PauseRequest:
    """The duration and the reason of a pause."""

    until: When | None
    note: str
    catch_up: bool


async def added(store: Store, plan: Plan, if_exists: IfExists) -> Schedule:
    if if_exists not in ("error", "replace", "keep"):
        raise InvalidValue(f"if_exists={if_exists!r}: choose one of error, replace, keep")
    try:
        [new] = await store.schedules.add([plan])
    except ScheduleExists:
        if if_exists == "error":
            raise
        if if_exists == "keep":
            return await found(store, plan.name)
        return await edited(store, plan.name, lambda _: plan)
    return Schedule.of(new, None)


async def edited(store: Store, name: str, change: Change) -> Schedule:
    await store.schedules.edit(name, change)
    return await found(store, name)


async def paused(store: Store, name: str, stop: PauseRequest) -> Schedule:
    moment = when_of("until", stop.until)
    if moment is not None and not isinstance(moment, datetime):
        moment = (await store.upkeep.progress()).now + moment
    await store.schedules.pause(name, until=moment, note=stop.note, catch_up=stop.catch_up)
    return await found(store, name)


async def resumed(store: Store, name: str) -> Schedule:
    await store.schedules.resume(name)
    return await found(store, name)


async def skipped(store: Store, name: str, count: int) -> list[datetime]:
    return await store.schedules.skip_next(name, count=count)


async def unskipped(store: Store, name: str) -> list[datetime]:
    return await store.schedules.unskip(name)


async def run(store: Store, name: str) -> Fire:
    return Fire.of(await store.schedules.run(name), name)


def change_of(rule: RuleText | None, words: Mapping[str, Any]) -> Change:
    """Return a function that changes a plan, only in the options that are given."""
    refuse_unknown(words)
    if rule is not None:
        rule_of(rule, said=f"duly.schedules.edit(rule={rule!r})")
    said = policies_of(words)
    chosen = {word: getattr(said, word) for word in words if word != "zone"}

    def change(plan: Plan) -> Plan:
        other: dict[str, Any] = {"policies": replace(plan.policies, **chosen)}
        if rule is not None:
            other["rule"] = str(rule)
        if "zone" in words:
            other["zone"] = words["zone"]
        return replace(plan, **other)

    return change


async def rewound(store: Store, name: str, *, to: datetime | None = None) -> Schedule:
    """Set the cursor back to a time, or to now, to recover after the database's clock was ahead."""
    await store.schedules.rewind(name, to=to or await store.surroundings.now())
    return await found(store, name)


async def taken_back(store: Store, name: str) -> Schedule:
    """Restore a schedule to its declaration in code; add it again if it was removed."""
    known = await store.schedules.in_code(name)
    if known is None:
        raise WrongState(f'"{name}" is not declared in code: there is nothing to take back')
    _, declared = known
    if name in {gone for gone, _ in await store.schedules.removed()}:
        return await added(store, declared, "keep")
    return await edited(store, name, lambda _: declared)


@dataclass(frozen=True, slots=True)
class BackfillRequest:
    """The arguments of a backfill, checked before the store is opened."""

    name: str
    start: datetime
    end: datetime
    dry_run: bool
    again: bool

    def __post_init__(self) -> None:
        check_stretch(self.start, self.end)


async def backfill(store: Store, wanted: BackfillRequest) -> Backfill:
    return await store.schedules.backfill(
        wanted.name,
        since=wanted.start,
        until=wanted.end,
        again=wanted.again,
        dry_run=wanted.dry_run,
    )

"""``duly.schedules``: the schedules in the store, and the history of their runs."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Final, Literal, TypeAlias, Unpack

from duly.app.actions import Action, AppNoun, awaitable, blocking
from duly.app.plans import (
    RuleText,
    ScheduleOptions,
    Startable,
    given_policies,
    label_of,
    paused_of,
    plan_of,
    refuse_unknown_options,
    rule_of,
)
from duly.connection import LazyStore
from duly.errors import InvalidValue, ScheduleExists, WrongState
from duly.model.fire import Backfill
from duly.model.job import Owner
from duly.model.schedule import Plan
from duly.model.schedule_filter import parse_schedule_filter
from duly.policy.backfill import check_stretch
from duly.registry.option_values import When, when_of
from duly.store.store import Store
from duly.views.access import is_own_schedule, own_plan
from duly.views.fires import Fire, history
from duly.views.schedules import PAGE, Schedule, preview, read_schedule, schedule_list
from duly.views.why import why_schedule

IfExists: TypeAlias = Literal["error", "replace", "keep"]
Change: TypeAlias = Callable[[Plan], Plan]


class Schedules(AppNoun):
    _noun = "duly.schedules"

    def __init__(self, lazy: LazyStore, *, zone: str | None) -> None:
        super().__init__(lazy)
        self._zone = zone

    # Declare and change.

    @blocking
    def add(
        self,
        rule: RuleText,
        call: Startable,
        /,
        *,
        name: str | None = None,
        if_exists: IfExists = "error",
        connection: object | None = None,
        **words: Unpack[ScheduleOptions],
    ) -> Action[Schedule]:
        """Add a schedule. Its first due moment is after now.

        ``if_exists="replace"`` replaces an existing schedule of that name; ``"keep"`` keeps it.
        With your ``connection`` it is part of your transaction; this holds for all methods that
        take one.
        """
        rule_of(rule, code=f"{self._noun}.add({rule!r})")
        plan = plan_of(rule, call, name=name, zone=self._zone, owner=Owner.API, words=words)
        paused = paused_of(words)
        return Action(
            lambda store: added(store, plan, if_exists, paused=paused),
            connection,
            decides=if_exists == "replace",
        )

    @blocking
    def edit(
        self,
        name: str,
        /,
        *,
        rule: RuleText | None = None,
        connection: object | None = None,
        **words: Unpack[ScheduleOptions],
    ) -> Action[Schedule]:
        """Change only the options that are given. An edit never makes a run count as missed."""
        change = change_of(rule, words)
        return Action(lambda store: edited(store, name, change), connection)

    @blocking
    def remove(self, name: str, /, *, connection: object | None = None) -> Action[None]:
        """Delete the schedule and its history; its jobs stay."""
        return Action(lambda store: store.schedules.remove(name), connection)

    @blocking
    def pause(
        self,
        name: str,
        /,
        *,
        until: When | None = None,
        note: str = "",
        catch_up: bool = False,
        connection: object | None = None,
    ) -> Action[Schedule]:
        """Pause the schedule. Moments that pass meanwhile are skipped, unless it is to catch up."""

        async def pause(store: Store) -> Schedule:
            moment = when_of("until", until)
            if moment is not None and not isinstance(moment, datetime):
                moment = (await store.maintenance.progress()).now + moment
            await store.schedules.pause(name, until=moment, note=note, catch_up=catch_up)
            return await read_schedule(store, name)

        return Action(pause, connection)

    @blocking
    def resume(self, name: str, /, *, connection: object | None = None) -> Action[Schedule]:
        async def resume(store: Store) -> Schedule:
            await store.schedules.resume(name)
            return await read_schedule(store, name)

        return Action(resume, connection)

    @blocking
    def skip_next(
        self, name: str, /, *, count: int = 1, connection: object | None = None
    ) -> Action[list[datetime]]:
        """Skip the next runs and return their due moments."""
        return Action(lambda store: store.schedules.skip_next(name, count=count), connection)

    @blocking
    def unskip(self, name: str, /, *, connection: object | None = None) -> Action[list[datetime]]:
        """Take back every moment ahead that was skipped in advance; return these moments."""
        return Action(lambda store: store.schedules.unskip(name), connection)

    @blocking
    def run(self, name: str, /, *, connection: object | None = None) -> Action[Fire]:
        """Run it once, now, beside the clock and under its own overlap policy."""

        async def run(store: Store) -> Fire:
            return Fire.of(await store.schedules.run(name), name)

        return Action(run, connection)

    @blocking
    def backfill(
        self,
        name: str,
        /,
        start: datetime,
        end: datetime,
        *,
        dry_run: bool = False,
        again: bool = False,
    ) -> Action[Backfill]:
        """Run the due moments from ``start`` up to ``end`` that have not run; ``again`` runs all.

        ``end`` is excluded, and not later than now. Either all runs are queued or none, so a
        backfill can be repeated. ``dry_run`` returns what would be done.
        """
        check_stretch(start, end)
        return Action(
            lambda store: store.schedules.backfill(
                name, since=start, until=end, again=again, dry_run=dry_run
            )
        )

    aadd: Final = awaitable(add)
    aedit: Final = awaitable(edit)
    aremove: Final = awaitable(remove)
    apause: Final = awaitable(pause)
    aresume: Final = awaitable(resume)
    askip_next: Final = awaitable(skip_next)
    aunskip: Final = awaitable(unskip)
    arun: Final = awaitable(run)
    abackfill: Final = awaitable(backfill)

    # Ask.

    @blocking
    def get(self, name: str, /) -> Action[Schedule]:
        return Action(lambda store: read_schedule(store, name))

    @blocking
    def list(
        self, words: str = "", /, *, after: str = "", limit: int = PAGE
    ) -> Action[Sequence[Schedule]]:
        """Return matching schedules, as ``"state:paused queue:mail nightly"``; by default, all.

        They come in name order, starting after the cursor ``after``.
        """
        wanted = parse_schedule_filter(words)
        return Action(lambda store: schedule_list(store, wanted, after=after, limit=limit))

    @blocking
    def history(
        self,
        name: str,
        /,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        limit: int = 100,
    ) -> Action[Sequence[Fire]]:
        """Return the runs of a schedule and their results, newest first."""
        return Action(lambda store: history(store, name, since=since, until=until, limit=limit))

    @blocking
    def preview(self, name: str, /, *, count: int = 10) -> Action[Sequence[datetime]]:
        """Return the next due moments, if nothing changes."""
        return Action(lambda store: preview(store, name, count))

    @blocking
    def why(self, name: str, /, at: datetime | str | None = None) -> Action[str]:
        """Explain the result of a run: the latest one, or the one ``at`` a time."""
        return Action(lambda store: why_schedule(store, name, at))

    aget: Final = awaitable(get)
    alist: Final = awaitable(list)
    ahistory: Final = awaitable(history)
    apreview: Final = awaitable(preview)
    awhy: Final = awaitable(why)


async def added(
    store: Store,
    plan: Plan,
    if_exists: IfExists = "error",
    *,
    paused: bool = False,
    tenant: str | None = None,
) -> Schedule:
    """Add a schedule, or deal with the one of that name; a tenant has only its own."""
    if if_exists not in ("error", "replace", "keep"):
        raise InvalidValue(f"if_exists={if_exists!r}: choose one of error, replace, keep")
    try:
        [new] = await store.schedules.add([own_plan(plan, tenant)], paused=paused)
    except ScheduleExists:
        if if_exists == "error" or not await is_own_schedule(store, plan.name, tenant):
            raise
        if if_exists == "keep":
            return await read_schedule(store, plan.name)
        return await edited(store, plan.name, lambda _: own_plan(plan, tenant))
    return Schedule.of(new, None)


async def edited(store: Store, name: str, change: Change) -> Schedule:
    await store.schedules.edit(name, change)
    return await read_schedule(store, name)


def change_of(rule: RuleText | None, words: Mapping[str, Any]) -> Change:
    """Return a function that changes a plan, only in the options that are given."""
    refuse_unknown_options(words)
    if rule is not None:
        rule_of(rule, code=f"duly.schedules.edit(rule={rule!r})")
    chosen = given_policies(words)
    label = label_of(words)
    if "paused" in words:
        raise InvalidValue("paused= is for a new schedule: say duly.schedules.pause() or resume()")

    def change(plan: Plan) -> Plan:
        other: dict[str, Any] = {"policies": replace(plan.policies, **chosen), **label}
        if rule is not None:
            other["rule"] = str(rule)
        if "zone" in words:
            other["zone"] = words["zone"]
        return replace(plan, **other)

    return change


async def rewound(store: Store, name: str, *, to: datetime | None = None) -> Schedule:
    """Set the cursor back to a time, or to now, to recover after the database's clock was ahead."""
    await store.schedules.rewind(name, to=to or await store.diagnostics.now())
    return await read_schedule(store, name)


async def taken_back(store: Store, name: str) -> Schedule:
    """Restore a schedule to its declaration in code; add it again if it was removed."""
    known = await store.schedules.in_code(name)
    if known is None:
        raise WrongState(f'"{name}" is not declared in code: there is nothing to revert')
    _, declared = known
    if name in {gone for gone, _ in await store.schedules.removed()}:
        return await added(store, declared, "keep")
    return await edited(store, name, lambda _: declared)

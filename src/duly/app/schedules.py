"""``duly.schedules``: what is to run when, as it stands in the store, and what became of it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Literal, TypeAlias, Unpack

from duly.app.home import Home
from duly.app.plans import RuleText, Timed, plan_of, policies_of, refuse_unknown
from duly.app.views import Fire, Schedule, fires
from duly.app.why import why_schedule
from duly.errors import InvalidValue, ScheduleExists
from duly.model.job import Owner
from duly.model.schedule import Plan
from duly.registry.options import When, when_of
from duly.rules import Spaced
from duly.store.protocol import Store

IfExists: TypeAlias = Literal["error", "replace", "keep"]
PAGE = 1_000
MOST_PREVIEWED = 1_000


class Schedules:
    def __init__(self, home: Home, *, zone: str | None, who: str = "") -> None:
        self._home = home
        self._zone = zone
        self._who = who

    # Declare and change.

    def add(
        self,
        rule: RuleText,
        call: object,
        /,
        *,
        name: str | None = None,
        if_exists: IfExists = "error",
        **words: Unpack[Timed],
    ) -> Schedule:
        """Remember a schedule. Its first moment is after now.

        ``if_exists="replace"`` changes one of that name to this; ``"keep"`` leaves it as it is.
        """
        plan = self._plan(rule, call, name=name, words=words)
        return self._home.call(
            lambda store: self._add(store, plan, if_exists), twin="duly.schedules.aadd()"
        )

    async def aadd(
        self,
        rule: RuleText,
        call: object,
        /,
        *,
        name: str | None = None,
        if_exists: IfExists = "error",
        **words: Unpack[Timed],
    ) -> Schedule:
        plan = self._plan(rule, call, name=name, words=words)
        return await self._add(await self._home.store(), plan, if_exists)

    def edit(
        self, name: str, /, *, rule: RuleText | None = None, **words: Unpack[Timed]
    ) -> Schedule:
        """Change what is said, and nothing else. An edit never makes moments missed."""
        change = _change(rule, words)
        return self._home.call(
            lambda store: self._edit(store, name, change), twin="duly.schedules.aedit()"
        )

    async def aedit(
        self, name: str, /, *, rule: RuleText | None = None, **words: Unpack[Timed]
    ) -> Schedule:
        return await self._edit(await self._home.store(), name, _change(rule, words))

    def remove(self, name: str, /) -> None:
        """Forget the schedule, with what became of its moments; its jobs stay."""
        self._home.call(
            lambda store: store.schedules.remove(name, who=self._who),
            twin="duly.schedules.aremove()",
        )

    async def aremove(self, name: str, /) -> None:
        await (await self._home.store()).schedules.remove(name, who=self._who)

    def pause(
        self, name: str, /, *, until: When | None = None, note: str = "", catch_up: bool = False
    ) -> Schedule:
        """Fire nothing. Moments that pass meanwhile are skipped, unless they are to catch up."""
        return self._home.call(
            lambda store: self._pause(store, name, until, note=note, catch_up=catch_up),
            twin="duly.schedules.apause()",
        )

    async def apause(
        self, name: str, /, *, until: When | None = None, note: str = "", catch_up: bool = False
    ) -> Schedule:
        store = await self._home.store()
        return await self._pause(store, name, until, note=note, catch_up=catch_up)

    def resume(self, name: str, /) -> Schedule:
        return self._home.call(
            lambda store: self._resume(store, name), twin="duly.schedules.aresume()"
        )

    async def aresume(self, name: str, /) -> Schedule:
        return await self._resume(await self._home.store(), name)

    def skip_next(self, name: str, /, *, count: int = 1) -> list[datetime]:
        """Leave the next moments out: which they are."""
        return self._home.call(
            lambda store: store.schedules.skip_next(name, count=count, who=self._who),
            twin="duly.schedules.askip_next()",
        )

    async def askip_next(self, name: str, /, *, count: int = 1) -> list[datetime]:
        store = await self._home.store()
        return await store.schedules.skip_next(name, count=count, who=self._who)

    def run(self, name: str, /) -> Fire:
        """Run it once, now, beside the clock and under its own overlap policy."""
        return self._home.call(lambda store: self._run(store, name), twin="duly.schedules.arun()")

    async def arun(self, name: str, /) -> Fire:
        return await self._run(await self._home.store(), name)

    # Ask.

    def get(self, name: str, /) -> Schedule:
        return self._home.call(lambda store: _get(store, name), twin="duly.schedules.aget()")

    async def aget(self, name: str, /) -> Schedule:
        return await _get(await self._home.store(), name)

    def list(self, *, after: str = "", limit: int = PAGE) -> "Sequence[Schedule]":
        """By name, behind the name ``after``."""
        return self._home.call(
            lambda store: _list(store, after, limit), twin="duly.schedules.alist()"
        )

    async def alist(self, *, after: str = "", limit: int = PAGE) -> "Sequence[Schedule]":
        return await _list(await self._home.store(), after, limit)

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
            lambda store: _history(store, name, since=since, until=until, limit=limit),
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
        return await _history(store, name, since=since, until=until, limit=limit)

    def preview(self, name: str, /, *, count: int = 10) -> "Sequence[datetime]":
        """Its next moments, if nothing changes."""
        return self._home.call(
            lambda store: _preview(store, name, count), twin="duly.schedules.apreview()"
        )

    async def apreview(self, name: str, /, *, count: int = 10) -> "Sequence[datetime]":
        return await _preview(await self._home.store(), name, count)

    def why(self, name: str, /, at: datetime | str | None = None) -> str:
        """What became of a due moment, and why: the latest, or the one ``at`` a time."""
        return self._home.call(
            lambda store: why_schedule(store, name, at), twin="duly.schedules.awhy()"
        )

    async def awhy(self, name: str, /, at: datetime | str | None = None) -> str:
        return await why_schedule(await self._home.store(), name, at)

    # How.

    def _plan(
        self, rule: RuleText, call: object, *, name: str | None, words: Mapping[str, Any]
    ) -> Plan:
        return plan_of(rule, call, name=name, zone=self._zone, owner=Owner.API, words=words)

    async def _add(self, store: Store, plan: Plan, if_exists: IfExists) -> Schedule:
        if if_exists not in ("error", "replace", "keep"):
            raise InvalidValue(f"if_exists={if_exists!r}: choose one of error, replace, keep")
        try:
            [added] = await store.schedules.add([plan])
        except ScheduleExists:
            if if_exists == "error":
                raise
            if if_exists == "keep":
                return await _get(store, plan.name)
            return await self._edit(store, plan.name, lambda _: plan)
        return Schedule.of(added, None)

    async def _edit(self, store: Store, name: str, change: Callable[[Plan], Plan]) -> Schedule:
        await store.schedules.edit(name, change, who=self._who)
        return await _get(store, name)

    async def _pause(
        self, store: Store, name: str, until: When | None, *, note: str, catch_up: bool
    ) -> Schedule:
        moment = when_of("until", until)
        if moment is not None and not isinstance(moment, datetime):
            moment = (await store.upkeep.progress()).now + moment
        await store.schedules.pause(name, until=moment, who=self._who, note=note, catch_up=catch_up)
        return await _get(store, name)

    async def _resume(self, store: Store, name: str) -> Schedule:
        await store.schedules.resume(name, who=self._who)
        return await _get(store, name)

    async def _run(self, store: Store, name: str) -> Fire:
        return Fire.of(await store.schedules.run(name, who=self._who), name)


def _change(rule: RuleText | None, words: Mapping[str, Any]) -> Callable[[Plan], Plan]:
    """What makes another plan of one: only what was said."""
    refuse_unknown(words)
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


async def _get(store: Store, name: str) -> Schedule:
    found = await store.schedules.get(name)
    latest = await store.ledger.latest([found.id])
    return Schedule.of(found, latest.get(found.id))


async def _list(store: Store, after: str, limit: int) -> "Sequence[Schedule]":
    found = await store.schedules.page(after=after, limit=limit)
    latest = await store.ledger.latest([schedule.id for schedule in found])
    return [Schedule.of(schedule, latest.get(schedule.id)) for schedule in found]


async def _history(
    store: Store, name: str, *, since: datetime | None, until: datetime | None, limit: int
) -> "Sequence[Fire]":
    return fires(await store.ledger.fires(name, since=since, until=until, limit=limit), name)


async def _preview(store: Store, name: str, count: int) -> "Sequence[datetime]":
    if not 1 <= count <= MOST_PREVIEWED:
        raise InvalidValue(f"count={count}: from 1 to {MOST_PREVIEWED:,}")
    schedule = await store.schedules.get(name)
    kept = schedule.plan.kept
    if isinstance(kept, Spaced):
        return [] if schedule.next_at is None else [schedule.next_at]
    now = max(schedule.cursor, (await store.upkeep.progress()).now)
    ahead = await store.ledger.fires(name, since=now, limit=MOST_PREVIEWED)
    skipped = {fire.due_at for fire in ahead}
    moments: list[datetime] = []
    moment = kept.after(now)
    while len(moments) < count and moment is not None:
        if moment not in skipped:
            moments.append(moment)
        moment = kept.after(moment)
    return moments

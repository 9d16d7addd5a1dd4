"""Where a schedule differs from what code declares: somebody has edited it, and that stays.

Until somebody takes it back: then it is the code's again, and follows it from there. What differs
is told as it is of a file, whose words are the same.
"""

from dataclasses import dataclass, replace
from datetime import datetime
from shlex import quote

from duly.declare.changes import Difference
from duly.declare.keeping import entry_of
from duly.declare.planning import plan
from duly.declare.sheet import Sheet
from duly.errors import NotFound
from duly.policy.why import Clock, Command
from duly.store.protocol import Store


@dataclass(frozen=True, slots=True)
class Drift:
    """A field that is otherwise here than in the code of an app."""

    app: str
    difference: Difference

    @property
    def field(self) -> str:
        return self.difference.field

    @property
    def here(self) -> str:
        return self.difference.shown[0]

    @property
    def in_code(self) -> str:
        return self.difference.shown[1]

    def __str__(self) -> str:
        return f"{self.field} is {self.here} here, and {self.in_code} in {self.app}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Removed:
    """A schedule that code declares and that somebody has removed."""

    name: str
    app: str
    at: datetime | None = None  # None: that is forgotten by now
    by: str = ""

    def sentence(self, clock: Clock) -> str:
        when = "" if self.at is None else f" {clock.near(self.at)}"
        by = f" by {self.by}" if self.by else ""
        return f"removed{when}{by}, and still declared in {self.app}: it does not run"

    @property
    def command(self) -> Command:
        return Command("bring it back", f"duly schedules take-back {quote(self.name)}")


async def removed_schedules(store: Store) -> list[Removed]:
    return [await _removed(store, name, app) for name, app in await store.schedules.removed()]


async def _removed(store: Store, name: str, app: str) -> Removed:
    try:
        [(at, who, _)] = await store.schedules.changes(name, limit=1)
    except (NotFound, ValueError):
        return Removed(name=name, app=app)
    return Removed(name=name, app=app, at=at, by=who)


async def drift(store: Store, name: str) -> list[Drift]:
    known = await store.schedules.in_code(name)
    if known is None:
        return []
    app, declared = known
    if name in {gone for gone, _ in await store.schedules.removed()}:
        return []
    live = await store.schedules.get(name)
    here, code = (
        Sheet(schedules={name: entry_of(one)}) for one in (live, replace(live, plan=declared))
    )
    [change] = plan(code, code, here).changes
    return [Drift(app, difference) for difference in change.drift]

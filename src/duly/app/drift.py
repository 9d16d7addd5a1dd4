"""Where a schedule differs from what code declares: somebody has edited it, and that stays.

Until somebody takes it back: then it is the code's again, and follows it from there. What differs
is told as it is of a file, whose words are the same.
"""

from dataclasses import dataclass, replace

from duly.app.changing import edited
from duly.app.views import Schedule
from duly.declare.changes import Difference
from duly.declare.keeping import entry_of
from duly.declare.planning import plan
from duly.declare.sheet import Sheet
from duly.errors import WrongState
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


async def drift(store: Store, name: str) -> list[Drift]:
    known = await store.schedules.in_code(name)
    if known is None:
        return []
    app, declared = known
    live = await store.schedules.get(name)
    here, code = (
        Sheet(schedules={name: entry_of(one)}) for one in (live, replace(live, plan=declared))
    )
    [change] = plan(code, code, here).changes
    return [Drift(app, difference) for difference in change.drift]


async def taken_back(store: Store, name: str, *, who: str) -> Schedule:
    """Let what code declares count again."""
    known = await store.schedules.in_code(name)
    if known is None:
        raise WrongState(f'"{name}" is not declared in code: there is nothing to take back')
    _, declared = known
    return await edited(store, name, lambda _: declared, who=who)

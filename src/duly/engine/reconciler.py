"""The reconciler: writes the schedules that the code of this node declares to the store.

It repeats the declaration every ten seconds. The store applies the newest declaration set of all
living nodes and tells a node with an older set that it is superseded, so a rolling deploy changes
each schedule once, in whatever order nodes come and go. A node whose set was applied before says so
(``held``): if an older set has replaced it, the older node only missed the newer declaration.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from hashlib import blake2s

from duly.events import (
    DeclarationSuperseded,
    DeclaredSchedulesRemoved,
    Emit,
    SchedulesDeclared,
    ignore_event,
)
from duly.store.store import Store
from duly.store.values import Declared, WantedSchedule

EVERY = timedelta(seconds=10)


class Reconciler:
    name = "reconciler"
    topics: frozenset[str] = frozenset()

    def __init__(
        self,
        store: Store,
        *,
        app: str,
        mark: str,
        wanted: Sequence[WantedSchedule],
        whole: bool = True,
        emit: Emit = ignore_event,
    ) -> None:
        self._store = store
        self._app = app
        self._mark = mark
        self._wanted = wanted
        self._whole = whole
        self._emit = emit
        self._superseded = False
        self._held = False
        self._removed: Sequence[str] = ()

    async def tick(self) -> timedelta:
        declared = await self._store.schedules.declare(
            self._app, self._mark, self._wanted, whole=self._whole, held=self._held
        )
        self._held = self._held or (self._whole and not declared.superseded)
        self._tell(declared)
        return EVERY

    def _tell(self, declared: Declared) -> None:
        if declared.superseded and not self._superseded:
            self._emit(DeclarationSuperseded(self._app, declared.since))
        self._superseded = declared.superseded
        if declared.removed and declared.removed != self._removed:
            self._emit(DeclaredSchedulesRemoved(self._app, declared.removed))
        self._removed = declared.removed
        if declared.written:
            self._emit(
                SchedulesDeclared(
                    app=self._app,
                    added=declared.added,
                    changed=declared.changed,
                    renamed=declared.renamed,
                    paused=declared.paused,
                    resumed=declared.resumed,
                    drift=declared.drift,
                    refused=declared.refused,
                )
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclarationSet:
    """All schedules that an app declares, as the node that runs its scheduler announces them."""

    app: str  # as "shop.tasks:duly"
    wanted: tuple[WantedSchedule, ...]
    whole: bool = True  # else other processes may know of more

    @property
    def mark(self) -> str:
        """The same for the same schedules, and never the same for others."""
        text = "\n".join(f"{one.plan!r} {one.aliases!r}" for one in self.wanted)
        return blake2s(text.encode(), digest_size=12).hexdigest()

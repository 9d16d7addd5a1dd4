"""The reconciler: writes the schedules that the code of this node declares to the store.

It repeats the declaration every ten seconds. The store applies the newest declaration set of all
living nodes and tells a node with an older set that it is superseded, so a rolling deploy changes
each schedule once, in whatever order nodes come and go. A node whose set was applied before says so
(``was_in_force``): if an older set has replaced it, its node only missed the newer one.
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
from duly.store.declarations import Declared, WantedSchedule
from duly.store.store import Store

EVERY = timedelta(seconds=10)


class Reconciler:
    name = "reconciler"
    topics: frozenset[str] = frozenset()

    def __init__(
        self,
        store: Store,
        declarations: "DeclarationSet",
        *,
        emit: Emit = ignore_event,
    ) -> None:
        self._store = store
        self._declarations = declarations
        self._app = declarations.app
        self._mark = declarations.mark
        self._emit = emit
        self._superseded = False
        self._was_in_force = False
        self._removed: Sequence[str] = ()

    async def tick(self) -> timedelta:
        declared = await self._store.schedules.declare(
            self._app,
            self._mark,
            self._declarations.wanted,
            whole=self._declarations.whole,
            was_in_force=self._was_in_force,
        )
        applied = self._declarations.whole and not declared.superseded
        self._was_in_force = self._was_in_force or applied
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
        """Return a fingerprint of the schedules: equal if and only if they are equal."""
        text = "\n".join(f"{one.plan!r} {one.aliases!r}" for one in self.wanted)
        return blake2s(text.encode(), digest_size=12).hexdigest()

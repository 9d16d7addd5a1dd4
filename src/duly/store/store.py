"""The store: every noun, on one database.

All calls may be made from any number of processes at once; each is one transaction, unless its
docstring says otherwise, and each may be repeated after ``OutcomeUnknown``. The time is the
store's own clock.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Final, get_type_hints

from duly.model.access import Actor
from duly.store.access import AccessStore
from duly.store.activity import ActivityStore
from duly.store.alerts import AlertStore
from duly.store.database import Database
from duly.store.diagnostics import DiagnosticsStore
from duly.store.events import EventStore
from duly.store.ids import Ids
from duly.store.jobs import JobStore
from duly.store.journal import JournalStore
from duly.store.limits import LimitStore
from duly.store.maintenance import MaintenanceStore
from duly.store.records import RecordStore
from duly.store.schedules import LedgerStore, ScheduleStore
from duly.store.transactions import Transactions
from duly.store.verbs import Noun
from duly.store.work import WorkStore


class Store(ABC):
    """The interface of a store for the engine and the application, local or remote."""

    schedules: ScheduleStore
    ledger: LedgerStore
    jobs: JobStore
    work: WorkStore
    limits: LimitStore
    journal: JournalStore
    maintenance: MaintenanceStore
    events: EventStore
    activity: ActivityStore
    records: RecordStore
    diagnostics: DiagnosticsStore
    access: AccessStore
    alerts: AlertStore

    @property
    @abstractmethod
    def actor(self) -> Actor | None:
        """The actor under whose name changes are recorded."""

    @property
    def who(self) -> str:
        """The name under which changes are recorded; empty without an actor."""
        return "" if self.actor is None else self.actor.who

    @abstractmethod
    def acting(self, actor: Actor, /) -> "Store":
        """Return the same store for an actor: the audit log records changes under their name."""

    @abstractmethod
    def listen(self, listener: Callable[[str], None], /) -> None:
        """Call the listener with a topic when something changed in any process. Only a hint."""

    @property
    def is_listening(self) -> bool:
        """Return whether changes by other processes are told; otherwise they are only polled."""
        return False

    @abstractmethod
    async def open(self) -> None: ...

    @abstractmethod
    async def close(self) -> None: ...


NOUNS: Final[Mapping[str, type[Noun]]] = get_type_hints(Store)


class SqlStore(Store):
    """A store in a database. ``ids`` are reserved numbers.

    ``db`` belongs to another store on the same database; this store shares all its state.
    """

    def __init__(
        self, database: Database, *, ids: Ids | None = None, db: Transactions | None = None
    ) -> None:
        self.database = database
        self._db = db or Transactions(database, ids)
        for name, noun in NOUNS.items():
            setattr(self, name, noun(self._db))

    @property
    def actor(self) -> Actor | None:
        return self._db.actor

    def acting(self, actor: Actor, /) -> "SqlStore":
        return SqlStore(self.database, db=self._db.acting(actor))

    def listen(self, listener: Callable[[str], None], /) -> None:
        self._db.listen(listener)

    @property
    def is_listening(self) -> bool:
        return self.database.is_listening

    async def open(self) -> None:
        await self.database.open()

    async def close(self) -> None:
        await self.database.close()

"""The store: every noun of ``protocol``, on one database."""

from collections.abc import Callable

from duly.model.access import Actor
from duly.store.database import Database
from duly.store.ids import Ids
from duly.store.nouns.access import SqlAccess
from duly.store.nouns.events import SqlEvents
from duly.store.nouns.evidence import SqlEvidence
from duly.store.nouns.jobs import SqlJobs
from duly.store.nouns.schedules import SqlLedger, SqlSchedules
from duly.store.nouns.surroundings import SqlSurroundings
from duly.store.nouns.upkeep import SqlUpkeep
from duly.store.nouns.work import SqlJournal, SqlLimits, SqlWork
from duly.store.transactions import Transactions


class SqlStore:
    """Everything that is remembered, in a database. ``ids`` are numbers that were reserved.

    ``room`` is that of a store on the same database, with which this one shares everything.
    """

    def __init__(
        self, database: Database, *, ids: Ids | None = None, room: Transactions | None = None
    ) -> None:
        room = room or Transactions(database, ids)
        self._room = room
        self.database = database
        self.schedules = SqlSchedules(room)
        self.ledger = SqlLedger(room)
        self.jobs = SqlJobs(room)
        self.work = SqlWork(room)
        self.limits = SqlLimits(room)
        self.journal = SqlJournal(room)
        self.upkeep = SqlUpkeep(room)
        self.events = SqlEvents(room)
        self.evidence = SqlEvidence(room)
        self.surroundings = SqlSurroundings(room)
        self.access = SqlAccess(room)

    @property
    def actor(self) -> Actor | None:
        return self._room.actor

    @property
    def who(self) -> str:
        """The name under which changes are recorded; empty without an actor."""
        return self._room.who

    def acting(self, actor: Actor, /) -> "SqlStore":
        return SqlStore(self.database, room=self._room.acting(actor))

    def listen(self, listener: Callable[[str], None], /) -> None:
        self._room.listen(listener)

    async def open(self) -> None:
        await self.database.open()

    async def close(self) -> None:
        await self.database.close()

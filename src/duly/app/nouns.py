"""The nouns of an app, as ``duly.schedules``: the same for a program and for a user of the web."""

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from duly.connection import LazyStore, OpenStore
from duly.registry.registry import Registry
from duly.store.store import Store

# Imported when they are used: a worker needs none of them, nor the views behind them.
if TYPE_CHECKING:
    from duly.app.access import Audit, Tokens
    from duly.app.capacity import Limits, Queues, Workers
    from duly.app.events import Events
    from duly.app.jobs import Jobs
    from duly.app.schedules import Schedules


class AppNouns(ABC):
    """The nouns on one store; ``_tenant`` limits the jobs to one tenant."""

    registry: Registry
    _lazy: LazyStore
    _tenant: str | None = None

    @property
    @abstractmethod
    def zone(self) -> str | None:
        """The default time zone of rules."""

    @property
    def jobs(self) -> "Jobs":
        """Jobs: list, get, retry, cancel, remove; groups of similar failures."""
        from duly.app.jobs import Jobs  # noqa: PLC0415

        return Jobs(self.registry, self._lazy, tenant=self._tenant)

    @property
    def schedules(self) -> "Schedules":
        """Schedules in the database, and the history of their runs."""
        from duly.app.schedules import Schedules  # noqa: PLC0415

        return Schedules(self._lazy, zone=self.zone)

    @property
    def events(self) -> "Events":
        """Events: list, get, replay."""
        from duly.app.events import Events  # noqa: PLC0415

        return Events(self._lazy)

    @property
    def queues(self) -> "Queues":
        """Queues: list, pause, resume, set."""
        from duly.app.capacity import Queues  # noqa: PLC0415

        return Queues(self._lazy)

    @property
    def limits(self) -> "Limits":
        """Concurrency and rate limits: list, set, reset."""
        from duly.app.capacity import Limits  # noqa: PLC0415

        return Limits(self._lazy)

    @property
    def workers(self) -> "Workers":
        """Workers: list, drain, resume, stop."""
        from duly.app.capacity import Workers  # noqa: PLC0415

        return Workers(self._lazy)

    @property
    def tokens(self) -> "Tokens":
        """Access tokens: list, create, revoke."""
        from duly.app.access import Tokens  # noqa: PLC0415

        return Tokens(self._lazy)

    @property
    def audit(self) -> "Audit":
        """The audit log: list, verify."""
        from duly.app.access import Audit  # noqa: PLC0415

        return Audit(self._lazy)


class StoreNouns(AppNouns):
    """The nouns on an open store, for a command; changes are recorded under its actor's name."""

    def __init__(self, store: Store) -> None:
        self.registry: Registry = Registry()
        self._lazy = OpenStore(store)

    @property
    def zone(self) -> str | None:
        return None

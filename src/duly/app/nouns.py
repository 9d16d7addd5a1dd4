"""The nouns of an app, as ``duly.schedules``: the same for a program and for a user of the web."""

from abc import ABC, abstractmethod

from duly.app.access import Audit, Tokens
from duly.app.capacity import Limits, Queues, Workers
from duly.app.events import Events
from duly.app.jobs import Jobs
from duly.app.schedules import Schedules
from duly.connection import LazyStore
from duly.registry.registry import Registry


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
    def jobs(self) -> Jobs:
        """Jobs: list, get, retry, cancel, remove; groups of similar failures."""
        return Jobs(self.registry, self._lazy, tenant=self._tenant)

    @property
    def schedules(self) -> Schedules:
        """Schedules in the database, and the history of their runs."""
        return Schedules(self._lazy, zone=self.zone)

    @property
    def events(self) -> Events:
        """Events: list, get, replay."""
        return Events(self._lazy)

    @property
    def queues(self) -> Queues:
        """Queues: list, pause, resume, set."""
        return Queues(self._lazy)

    @property
    def limits(self) -> Limits:
        """Concurrency and rate limits: list, set, reset."""
        return Limits(self._lazy)

    @property
    def workers(self) -> Workers:
        """Workers: list, drain, resume, stop."""
        return Workers(self._lazy)

    @property
    def tokens(self) -> Tokens:
        """Access tokens: list, create, revoke."""
        return Tokens(self._lazy)

    @property
    def audit(self) -> Audit:
        """The audit log: list, verify."""
        return Audit(self._lazy)

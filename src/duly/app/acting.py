"""The front desk of a web side: everything that can be asked or done, in somebody's name.

A ``Lobby`` is there once in a process, and remembers between two looks what need not be asked
again. Whoever comes in gets a ``Front`` of their own: what is changed through it is in the audit
log under their name.
"""

from collections.abc import Awaitable, Callable
from datetime import timedelta
from functools import cached_property
from typing import Concatenate, ParamSpec, TypeVar

from duly.app.access import Audit, Tokens, new_secret
from duly.app.capacity import Limits, Queues, Workers
from duly.app.events import Events
from duly.app.jobs import Jobs
from duly.app.schedules import Schedules
from duly.connection import LazyStore, OpenStore, configured
from duly.doctor.examination import Rounds
from duly.model.access import PREFIX, Actor, How, Token, User, hash_of
from duly.registry.registry import Registry
from duly.runtime.http_workers import HttpWorkers
from duly.settings import Settings
from duly.store.store import Store
from duly.views.charts import Charts, QueueRateMeter
from duly.views.today import Today

P = ParamSpec("P")
R = TypeVar("R")


class WebBackend:
    """``lazy`` is where the jobs are; ``registry`` has the tasks that this process knows."""

    def __init__(
        self,
        lazy: LazyStore,
        registry: Registry,
        *,
        zone: str | None,
        settings: Settings | None = None,
    ) -> None:
        self.registry = registry
        self.zone = zone
        self.today = Today()
        self._lazy = lazy
        self._settings = settings
        self._http_workers: HttpWorkers | None = None

    @property
    def settings(self) -> Settings:
        """What this process was told; or what it would be told, where nobody has said."""
        return self._settings or configured()

    @cached_property
    def charts(self) -> Charts:
        return Charts()

    @cached_property
    def flows(self) -> QueueRateMeter:
        return QueueRateMeter()

    @cached_property
    def rounds(self) -> Rounds:
        """The doctor's."""
        return Rounds(self._lazy.url)

    async def http_workers(self) -> HttpWorkers:
        """The workers that come in over HTTP."""
        store = await self._lazy.store()
        if self._http_workers is None or self._http_workers.store is not store:
            self._http_workers = HttpWorkers(store)
        return self._http_workers

    def close(self) -> None:
        """Let nobody wait any longer: whoever serves is about to stop."""
        if self._http_workers is not None:
            self._http_workers.close()

    async def as_user(self, user: User, how: How) -> "UserApp":
        store = await self._lazy.store()
        return UserApp(self, store.acting(Actor(user.name, how)), user)

    async def token(self, secret: str) -> Token | None:
        """What a secret opens, now; None: nothing, or not any more."""
        if not secret.startswith(PREFIX):
            return None
        return await (await self._lazy.store()).access.find_token(hash_of(secret))

    async def begin_session(self, secret: str, length: timedelta) -> str:
        """The secret of a new session for whoever showed ``secret``: that one is not kept."""
        session = new_secret()
        access = (await self._lazy.store()).access
        await access.begin_session(hash_of(session), holder=hash_of(secret), length=length)
        return session

    async def session(self, session: str) -> tuple[str, Token | None] | None:
        """The hash that a session was begun with, and the token of it that is valid now, if any."""
        if not session.startswith(PREFIX):
            return None
        access = (await self._lazy.store()).access
        holder = await access.session_holder(hash_of(session))
        return None if holder is None else (holder, await access.find_token(holder))

    async def end_session(self, session: str) -> None:
        if session.startswith(PREFIX):
            await (await self._lazy.store()).access.end_session(hash_of(session))

    async def has_tokens(self) -> bool:
        """Whether anybody could sign in."""
        return bool(await (await self._lazy.store()).access.tokens())

    async def ask(
        self,
        question: Callable[Concatenate[Store, P], Awaitable[R]],
        *args: P.args,
        **words: P.kwargs,
    ) -> R:
        """Ask in nobody's name: what is asked so changes nothing."""
        return await question(await self._lazy.store(), *args, **words)


class UserApp:
    """The nouns of an app, for one user."""

    def __init__(self, backend: WebBackend, store: Store, user: User) -> None:
        self.backend = backend
        self.user = user
        self._store = store
        self._lazy = OpenStore(store)

    @property
    def registry(self) -> Registry:
        return self.backend.registry

    @property
    def holder(self) -> str:
        """Who comes in, and by which way: under this a worker over HTTP is registered."""
        how = self._store.actor.how if self._store.actor is not None else ""
        return f"{how}:{self.user.name}"

    @property
    def signed_in(self) -> bool:
        """Whether they came in by signing in here, and may sign out."""
        return self._store.actor is not None and self._store.actor.how == "person"

    @property
    def jobs(self) -> Jobs:
        return Jobs(self.registry, self._lazy, tenant=self.user.tenant)

    @property
    def schedules(self) -> Schedules:
        return Schedules(self._lazy, zone=self.backend.zone)

    @property
    def events(self) -> Events:
        return Events(self._lazy)

    @property
    def queues(self) -> Queues:
        return Queues(self._lazy)

    @property
    def limits(self) -> Limits:
        return Limits(self._lazy)

    @property
    def workers(self) -> Workers:
        return Workers(self._lazy)

    @property
    def tokens(self) -> Tokens:
        return Tokens(self._lazy)

    @property
    def audit(self) -> Audit:
        return Audit(self._lazy)

    async def ask(
        self,
        question: Callable[Concatenate[Store, P], Awaitable[R]],
        *args: P.args,
        **words: P.kwargs,
    ) -> R:
        """``await front.ask(status)``: any question of ``duly.app`` that begins with a store."""
        return await question(self._store, *args, **words)

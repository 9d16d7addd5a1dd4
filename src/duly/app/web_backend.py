"""The app as the web server uses it: one backend per process, and one ``UserApp`` per request.

A ``WebBackend`` exists once per process; it keeps caches, and looks up tokens and sessions. Each
request gets a ``UserApp``, whose changes are in the audit log under the user's name.
"""

from collections.abc import Awaitable, Callable
from datetime import timedelta
from functools import cached_property
from typing import Concatenate, ParamSpec, TypeVar

from duly.app.access import new_secret
from duly.app.nouns import AppNouns
from duly.connection import LazyStore, OpenStore, configured
from duly.doctor.examination import Rounds
from duly.model.access import PREFIX, Actor, How, Token, User, hash_of
from duly.registry.registry import Registry
from duly.runtime.http_workers import HttpWorkers
from duly.settings import Settings
from duly.store.store import Store
from duly.views.charts import Charts, QueueRateMeter
from duly.views.today import TodayCache

P = ParamSpec("P")
R = TypeVar("R")


class WebBackend:
    """The store, tasks and caches of one web process; ``registry`` has the tasks it knows."""

    def __init__(
        self,
        lazy: LazyStore,
        registry: Registry,
        *,
        zone: str | None,
        settings: Settings | None = None,
    ) -> None:
        self.registry: Registry = registry
        self.zone = zone
        self.today: TodayCache = TodayCache()
        self._lazy = lazy
        self._settings = settings
        self._http_workers: HttpWorkers | None = None

    @property
    def settings(self) -> Settings:
        """The settings that the process was started with; else the configured ones."""
        return self._settings or configured()

    @cached_property
    def charts(self) -> Charts:
        return Charts()

    @cached_property
    def flows(self) -> QueueRateMeter:
        return QueueRateMeter()

    @cached_property
    def rounds(self) -> Rounds:
        """The checks of ``duly doctor``."""
        return Rounds(self._lazy.url)

    async def http_workers(self) -> HttpWorkers:
        """Return the registry of HTTP workers."""
        store = await self._lazy.store()
        if self._http_workers is None or self._http_workers.store is not store:
            self._http_workers = HttpWorkers(store)
        return self._http_workers

    def close(self) -> None:
        """End all waiting claims of HTTP workers, because the server is about to stop."""
        if self._http_workers is not None:
            self._http_workers.close()

    async def as_user(self, user: User, how: How) -> "UserApp":
        store = await self._lazy.store()
        return UserApp(self, store.acting(Actor(user.name, how)), user)

    async def token(self, secret: str) -> Token | None:
        """Return the token of a secret, if it is valid now."""
        if not secret.startswith(PREFIX):
            return None
        return await (await self._lazy.store()).access.find_token(hash_of(secret))

    async def begin_session(self, secret: str, length: timedelta) -> str:
        """Start a session for the holder of a token's ``secret``; return the session's secret."""
        session = new_secret()
        access = (await self._lazy.store()).access
        await access.begin_session(hash_of(session), holder=hash_of(secret), length=length)
        return session

    async def session(self, session: str) -> tuple[str, Token | None] | None:
        """Return the hash of the token that started a session, and the token if it is valid."""
        if not session.startswith(PREFIX):
            return None
        access = (await self._lazy.store()).access
        holder = await access.session_holder(hash_of(session))
        return None if holder is None else (holder, await access.find_token(holder))

    async def end_session(self, session: str) -> None:
        if session.startswith(PREFIX):
            await (await self._lazy.store()).access.end_session(hash_of(session))

    async def has_tokens(self) -> bool:
        """Return whether there is a valid token."""
        return bool(await (await self._lazy.store()).access.tokens())

    async def ask(
        self,
        question: Callable[Concatenate[Store, P], Awaitable[R]],
        *args: P.args,
        **words: P.kwargs,
    ) -> R:
        """Run a read-only question on the store, without a user."""
        return await question(await self._lazy.store(), *args, **words)


class UserApp(AppNouns):
    """An app as one user sees it: jobs, schedules, queues and so on."""

    def __init__(self, backend: WebBackend, store: Store, user: User) -> None:
        self.backend = backend
        self.user = user
        self._store = store
        self._lazy = OpenStore(store)
        self._tenant = user.tenant
        self.registry: Registry = backend.registry

    @property
    def zone(self) -> str | None:
        return self.backend.zone

    @property
    def holder(self) -> str:
        """The name that an HTTP worker is registered under: how the user signed in, and who."""
        how = self._store.actor.how if self._store.actor is not None else ""
        return f"{how}:{self.user.name}"

    @property
    def signed_in(self) -> bool:
        """Return whether the user has a session here, and so can sign out."""
        return self._store.actor is not None and self._store.actor.how == "person"

    async def ask(
        self,
        question: Callable[Concatenate[Store, P], Awaitable[R]],
        *args: P.args,
        **words: P.kwargs,
    ) -> R:
        """Run a function whose first parameter is a store: ``await app.ask(status)``."""
        return await question(self._store, *args, **words)

    async def ask_own(
        self, question: Callable[..., Awaitable[R]], *args: object, **words: object
    ) -> R:
        """Run a function as ``ask`` does, limited to the tenant of the user (None: no limit)."""
        return await question(self._store, *args, **words, tenant=self.user.tenant)

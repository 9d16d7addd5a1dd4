"""The app as a user of the Django project uses it: changes are recorded under their name."""

from collections.abc import Awaitable, Callable
from typing import Any, Concatenate, ParamSpec, TypeVar

from duly.app.nouns import AppNouns
from duly.connection import LazyStore
from duly.django.app import ProjectStore, duly
from duly.model.access import Actor
from duly.registry.registry import Registry
from duly.store.store import Store

P = ParamSpec("P")
T = TypeVar("T")


class StaffApp(AppNouns):
    def __init__(self, user: Any) -> None:
        self.name: str = str(user.get_username())
        self.registry: Registry = duly.registry
        self._lazy = ActingStore(duly.project_store, Actor(self.name, "http"))

    @property
    def zone(self) -> str | None:
        return duly.zone

    def ask(
        self,
        question: Callable[Concatenate[Store, P], Awaitable[T]],
        *args: P.args,
        **words: P.kwargs,
    ) -> T:
        """Run a function whose first parameter is a store: ``app.ask(queue_list)``."""
        return self._lazy.call(lambda store: question(store, *args, **words), async_name="")


class ActingStore(LazyStore):
    """The store of the project; its changes are made in the name of an actor."""

    def __init__(self, inner: ProjectStore, actor: Actor) -> None:
        super().__init__(None)
        self._inner = inner
        self._actor = actor

    async def store(self) -> Store:
        return (await self._inner.store()).acting(self._actor)

    def call(self, work: Callable[[Store], Awaitable[T]], *, async_name: str) -> T:
        return self._inner.call(
            lambda store: work(store.acting(self._actor)), async_name=async_name
        )

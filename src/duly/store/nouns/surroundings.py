"""Surroundings, for whoever wants to know whether a store stands on firm ground."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from duly.model.worker import WorkerInfo
from duly.store import surroundings
from duly.store.protocol import BadDay, Orphans, WantedTask
from duly.store.transactions import Transactions


class SqlSurroundings:
    def __init__(self, room: Transactions) -> None:
        self._room = room

    async def now(self) -> datetime:
        return await self._room.read(surroundings.now)

    async def newest(self) -> datetime | None:
        return await self._room.read(surroundings.newest)

    async def settings(self) -> Mapping[str, str]:
        return await self._room.read(surroundings.settings)

    async def bad_days(self, *, ahead: int) -> list[BadDay]:
        return await self._room.read(lambda: surroundings.bad_days(ahead))

    async def zone_data(self) -> Mapping[str, int]:
        return await self._room.read(surroundings.zone_data)

    async def wanted(self, *, limit: int = 1_000) -> list[WantedTask]:
        return await self._room.read(lambda: surroundings.wanted(limit))

    async def living(self) -> list[WorkerInfo]:
        return await self._room.read(surroundings.living)

    async def orphans(self, *, dead: Sequence[int] = (), limit: int = 100) -> list[Orphans]:
        return await self._room.read(lambda: surroundings.orphans(dead, limit))

"""A live feed of happenings, in which each appears once.

The store is polled for news. A row becomes visible when its transaction commits, which is later
than the timestamp in it: each poll reads the last few seconds again, and happenings that were
returned already are remembered. When there are too many to read, only the newest are returned, with
the number left out: a feed never falls behind.
"""

import re
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import NamedTuple

from duly.clock import boottime
from duly.durations import MICROSECOND
from duly.errors import InvalidValue
from duly.instants import FIRST_US, LAST_US, from_us
from duly.store.activity import Happening
from duly.store.store import Store

__all__ = ["ActivityWatch", "Happening"]

MOST = 1_000  # happenings returned by one call
MOST_REMEMBERED = 10_000
AGAIN = timedelta(seconds=3)  # read again by each call: longer than a transaction takes
FURTHEST = timedelta(minutes=5)  # how far back a reconnecting client is served

_ID = re.compile(r"(\d{1,18})-(\d{1,19})", re.ASCII)


class ActivityWatch:
    """The feed of one store, made once per process: one caller polls for any number of clients."""

    def __init__(self) -> None:
        self.left_out: int = 0  # happenings that the last call did not return
        self._told: dict[_Key, Happening] = {}
        self._newest: datetime | None = None  # the time of the newest happening returned
        self._floor: datetime | None = None  # older happenings were returned or left out
        self._looked_at = boottime()

    async def look(self, store: Store) -> list[Happening]:
        """Return the happenings since the last call, oldest first.

        The first call returns those of the last few seconds.
        """
        since = await self._since(store)
        recent = sum(told.at >= since for told in self._told.values())
        found = await store.activity.happened(since, limit=MOST + recent)
        told = [one for one in found if _key(one) not in self._told][-MOST:]
        self.left_out = 0
        if len(found) == MOST + recent:
            every = await store.activity.count_happened(since)
            self.left_out = max(0, every - recent - len(told))
        if self.left_out:
            self._floor = told[0].at + MICROSECOND
        self._remember(told)
        return told

    async def resume(self, store: Store, last: str) -> list[Happening]:
        """Return the happenings after the one with id ``last``, for a client that reconnects."""
        at, number = _read(last)
        told = list(self._told.values())
        for place, one in enumerate(told):
            if one.id == last:
                return told[place + 1 :][-MOST:]
        now = (await store.maintenance.progress()).now
        newest = now if self._newest is None else self._newest
        found = await store.activity.happened(max(at, now - FURTHEST), limit=MOST)
        return [
            one
            for one in found
            if (one.at, one.number) > (at, number)
            # The next look tells the others.
            and (one.at < newest - AGAIN or _key(one) in self._told)
        ]

    async def _since(self, store: Store) -> datetime:
        """Return the time from which to read, on the store's clock (this machine's may differ)."""
        away, self._looked_at = boottime() - self._looked_at, boottime()
        if self._newest is None or away > FURTHEST.total_seconds():
            now = (await store.maintenance.progress()).now
            self._newest = now if self._newest is None else max(self._newest, now - FURTHEST)
        since = self._newest - AGAIN
        return since if self._floor is None else max(since, self._floor)

    def _remember(self, told: Iterable[Happening]) -> None:
        for one in told:
            self._told[_key(one)] = one
            self._newest = one.at if self._newest is None else max(self._newest, one.at)
        for key in list(self._told)[: max(0, len(self._told) - MOST_REMEMBERED)]:
            del self._told[key]


class _Key(NamedTuple):
    kind: str
    number: int
    at: datetime


def _key(one: Happening) -> _Key:
    return _Key(one.kind, one.number, one.at)


def _read(text: str) -> tuple[datetime, int]:
    found = _ID.fullmatch(text)
    if found is None or not FIRST_US <= int(found[1]) <= LAST_US:
        raise InvalidValue(
            f'"{text[:60]}" is not the id of anything that happened; one looks like '
            '"1700000000000000-42": leave it out to be told what happens from now on'
        )
    return from_us(int(found[1])), int(found[2])

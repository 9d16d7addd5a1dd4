"""The reads of a store, as they are made: a list of the statements of each round trip."""

from collections.abc import Generator
from typing import Any

import pytest

from duly.store.database import Operation, Start
from duly.store.transactions import Transactions


def record_reads(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Return a list that grows by one entry for each read transaction from now on."""
    trips: list[list[str]] = []
    read = Transactions.read

    async def recorded(transactions: Transactions, start: Start[Any]) -> object:
        trip: list[str] = []
        trips.append(trip)

        def begin() -> Operation[Any]:
            trip.clear()  # it may be run again after a lost connection
            return _noted(start(), trip)

        return await read(transactions, begin)

    monkeypatch.setattr(Transactions, "read", recorded)
    return trips


def _noted(operation: Operation[Any], trip: list[str]) -> Generator[Any, Any, Any]:
    answer: Any = None
    while True:
        try:
            asked = operation.send(answer)
        except StopIteration as end:
            return end.value
        trip.append(asked.statement)
        answer = yield asked

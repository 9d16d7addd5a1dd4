"""What happens in the simulated world: looked at in the end, and in the ledger of who was there."""

from collections.abc import Iterator

from tests.simulation.ledger import Ledger, Life
from tests.simulation.watch import EventRow


class Events:
    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._rows: dict[int, EventRow] = {}
        self._meant: dict[int, list[Life]] = {}  # those who were there when it happened

    def __contains__(self, number: int) -> bool:
        return number in self._rows

    def event(self, _: EventRow | None, after: EventRow | None) -> None:
        if after is None:
            return  # it was forgotten
        if after.id not in self._rows:
            self._meant[after.id] = list(self._ledger.reacting(after.name, after.at))
        self._rows[after.id] = after

    def unanswered(self) -> Iterator[str]:
        """At the end: what happened is in the ledger of each schedule that was there for it."""
        for event in self._rows.values():
            if not event.seen:
                yield f"{event} was never looked at"
            for life in self._meant[event.id]:
                if life.is_steady and event.id not in life.reactions:
                    yield f'"{life.row.name}" ({life.row.rule}) has no row for {event}'

"""What has to happen sometimes, or else nothing was tested.

A story in which no lease ever expires says nothing about leases. Each of these is counted over all
stories that are played, and each has to be above zero.
"""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple, cast

from duly.store.database import Value

SOMETIMES = (
    "answer lost",
    "blackout",
    "blocked freed",
    "callback made",
    "catch-up bounded",
    "claim adopted",
    "clock distrusted",
    "compare-and-set lost",
    "coroner's certificate",
    "cut off",
    "dst note",
    "ended cancelled",
    "ended expired",
    "ended failed",
    "failed job retried",
    "fenced",
    "flow cancelled",
    "flow failed",
    "flow opened",
    "flow resumed",
    "flow succeeded",
    "flow within a flow",
    "freed from limit",
    "freeze",
    "hurried",
    "idle work run",
    "key taken over from a running job",
    "lease expired while the holder was alive",
    "lease found lost",
    "limit full",
    "low work run",
    "moved by key",
    "nudge lost",
    "outage",
    "paused stretch",
    "poison reached",
    "reaction withdrawn",
    "replace signal",
    "restart",
    "rewound",
    "skip_next hit",
    "skipped excluded",
    "skipped late",
    "skipped missed",
    "skipped overlap",
    "skipped refused",
    "step answered",
    "step cancelled",
    "step skipped",
    "stopped in order",
    "suspect run",
    "take-over",
    "transaction ended from outside",
    "two nodes raced a fire",
    "unknown commit resolved",
    "write refused",
    "zombie",
)


class Asked(NamedTuple):
    """A statement, its values, and how many rows came back."""

    statement: str
    values: Mapping[str, Value]
    rows: int


class Counts:
    """Counts by what was asked, and what came back."""

    def __init__(self, sometimes: Counter[str]) -> None:
        self._sometimes = sometimes
        self._commits = 0
        self._fired: dict[int, tuple[int, str]] = {}  # when and by whom a schedule was fired last

    @property
    def commits(self) -> int:
        return self._commits

    def count(self, host: str, asked: Sequence[Asked], *, since: int) -> None:
        """An operation that began at the commit ``since`` was committed."""
        self._commits += 1
        for ask in asked:
            match ask.statement:
                case "move_jobs" if ask.rows:
                    self._sometimes["moved by key"] += 1
                case "hurry_jobs" if ask.rows:
                    self._sometimes["hurried"] += 1
                case "rewind_schedule":
                    self._sometimes["rewound"] += 1
                case "enqueue" | "enqueue_one" if not ask.rows:
                    self._sometimes["unknown commit resolved"] += 1
                case "record_fires" if ask.rows < cast(str, ask.values["rows"]).count(
                    '"covers_from"'
                ):
                    self._sometimes["moment was in the ledger"] += 1
                case "advance_schedules":
                    self._race(host, ask, since)
                case _:
                    pass

    def _race(self, host: str, ask: Asked, since: int) -> None:
        wanted = [row["id"] for row in json.loads(cast(str, ask.values["rows"]))]
        if ask.rows < len(wanted):
            self._sometimes["compare-and-set lost"] += 1
            for number in wanted:
                commit, winner = self._fired.get(number, (0, host))
                self._sometimes["two nodes raced a fire"] += winner != host and commit > since
        if ask.rows == len(wanted):
            self._fired |= dict.fromkeys(wanted, (self._commits, host))

"""Counters of ended jobs and decided fires, added stretch by stretch.

The counters are one row: the counts, and the instant up to which they count. A node reads the next
stretch of the history, the failed attempts and the ledger, and writes both in one statement that is
refused if another node was faster. So nothing is counted twice, and pruning the history later takes
nothing away.

A row carries the time at which its transaction worked, and is seen when that has committed. So a
stretch ends ``LAG`` ago, and on PostgreSQL before the oldest transaction that is still writing.
Whatever is committed even later is not counted.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

import msgspec

from duly.store.activity import LENGTHS
from duly.store.database import Ask, Operation, Row, Value
from duly.store.transactions import trusted_now
from duly.store.values import Trust


@dataclass(slots=True, kw_only=True)
class Durations:
    """A histogram: how many durations lie between two of ``LENGTHS``, and the microseconds."""

    counts: list[int] = field(default_factory=lambda: [0] * (len(LENGTHS) + 1))
    total: int = 0

    def add(self, place: int, count: int, total: int) -> None:
        self.counts[min(max(place, 0), len(LENGTHS))] += count
        self.total += total


@dataclass(slots=True, kw_only=True)
class Counters:
    """Counts of all that has happened since a node first ran on the store."""

    jobs: dict[str, dict[str, dict[str, int]]] = field(default_factory=dict)  # task, queue, outcome
    fires: dict[str, dict[str, int]] = field(default_factory=dict)  # outcome, cause
    wait: dict[str, Durations] = field(default_factory=dict)  # queue
    run: dict[str, Durations] = field(default_factory=dict)  # task
    lateness: dict[str, Durations] = field(default_factory=dict)  # queue


LAG: Final = 5_000_000
LONGEST: Final = 60_000_000  # a stretch in which something happened
REMEMBERED: Final = LONGEST  # a silent stretch is written then, and not read again and again
# Names beyond these are counted under OTHER: made-up names must not fill a monitoring system.
MOST_NAMES: Final = 200
MOST_PAIRS: Final = 1_000
OTHER: Final = "(other)"

_decode = msgspec.json.Decoder(Counters).decode
_encode = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class CountedStretch:
    since: int | None  # None: there are no counters yet
    until: int
    counters: Counters
    more: bool


def counters() -> Operation[Counters]:
    """Return the counters, which lag a few seconds behind and never go back."""
    found = yield Ask("counter_position", {"lag": LAG})
    return _decode(found[0][1]) if found else Counters()


def stretch(trust: Trust | None) -> Operation[CountedStretch | None]:
    """Read the next stretch and return it added to the counters; None if nothing is to be written.

    A stretch in which nothing happened is doubled, so that a year of downtime is soon over.
    """
    now = yield from trusted_now(trust)
    if now is None:
        return None
    found = yield Ask("counter_position", {"lag": LAG, "now": now})
    if not found:
        return CountedStretch(None, now, Counters(), more=False)
    [(since, counts, settled)] = found
    if since > now:  # written by a clock that was ahead
        return CountedStretch(since, settled, _decode(counts), more=False)
    until, length = since, LONGEST
    while until < settled:
        between = {"since": until, "until": min(until + length, settled)}
        ended = yield Ask("count_ended", between)
        retried = yield Ask("count_retried", between)
        fires = yield Ask("count_fires", between)
        until, length = between["until"], length * 2
        if ended or retried or fires:
            added = _decode(counts)
            _add(added, ended, retried, fires)
            return CountedStretch(since, until, added, more=until < settled)
    if settled - since < REMEMBERED:
        return None
    return CountedStretch(since, settled, _decode(counts), more=False)


def keep(found: CountedStretch) -> Operation[None]:
    """Write counters, unless another node has written meanwhile."""
    values: dict[str, Value] = {
        "until": found.until,
        "counts": _encode(found.counters).decode(),
    }
    if found.since is None:
        yield Ask("begin_counters", values)
    else:
        yield Ask("set_counters", {**values, "since": found.since})


def _add(
    counters: Counters, ended: Iterable[Row], retried: Iterable[Row], fires: Iterable[Row]
) -> None:
    for task, queue, state, wait, run, late, count, wait_total, run_total, late_total in ended:
        _increase(_outcomes(counters, task, queue), state, count)
        if run is not None:  # it started
            _durations(counters.wait, queue).add(wait, count, wait_total)
            _durations(counters.run, task).add(run, count, run_total)
        if late is not None:
            _durations(counters.lateness, queue).add(late, count, late_total)
    for task, queue, run, count, run_total in retried:
        _increase(_outcomes(counters, task, queue), "retried", count)
        _durations(counters.run, task).add(run, count, run_total)
    for outcome, cause, count in fires:
        _increase(counters.fires.setdefault(outcome, {}), cause, count)


def _outcomes(counters: Counters, task: str, queue: str) -> dict[str, int]:
    is_known = queue in counters.jobs.get(task, ())
    if not is_known and sum(map(len, counters.jobs.values())) >= MOST_PAIRS:
        task, queue = OTHER, OTHER
    return counters.jobs.setdefault(task, {}).setdefault(queue, {})


def _durations(known: dict[str, Durations], name: str) -> Durations:
    name = name if name in known or len(known) < MOST_NAMES else OTHER
    return known.setdefault(name, Durations())


def _increase(counts: dict[str, int], name: str, count: int) -> None:
    counts[name] = counts.get(name, 0) + int(count)

"""Retrying failed jobs: one, or all that match.

A retried job is placed behind the jobs of its schedule that have not ended, unless they may
overlap; of several that are retried together, behind the older ones too. A step is retried by its
flow: retrying the one retries the other.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from duly.errors import InvalidValue
from duly.model.states import State
from duly.store import rows
from duly.store.database import Ask, Operation

BATCH = 100  # in one transaction


class FailedRow(NamedTuple):
    """The facts about a failed job that are needed to retry it."""

    id: int
    schedule_id: int | None = None
    parent: int | None = None
    step: int | None = None
    task: str = ""
    key: str | None = None


MOST = 2**63


@dataclass(frozen=True, slots=True)
class RetryCursor:
    """The position of a walk through the failed jobs, and its end.

    Jobs that fail again during the walk failed after its end, and are not met a second time.
    """

    until: int
    ended_at: int = 0
    id: int = 0

    def behind(self, found: Sequence[Sequence[int]]) -> "RetryCursor":
        """Return the cursor after the last of the found jobs."""
        return RetryCursor(self.until, found[-1][1], found[-1][0]) if found else self


def begin() -> Operation[RetryCursor]:
    [(now,)] = yield Ask("now")
    return RetryCursor(until=now)


def revive(numbers: Sequence[int], who: str) -> Operation[list[int]]:
    """Retry failed jobs; return those that had failed and wait again."""
    found = [FailedRow(*row) for row in (yield Ask("peek_failed", {"ids": list(numbers)}))]
    parents = {one.id: one.parent or 0 for one in found if one.step is not None}
    if not parents:
        return (yield from _revive(numbers, {one.id: one for one in found}, who))
    wanted = list(dict.fromkeys(parents.get(number, number) for number in numbers))
    return (yield from revive(wanted, who))  # a flow may be a step as well


def revive_steps(numbers: Sequence[int]) -> Operation[None]:
    """Retry the steps of a flow that is resumed, and nested flows that ended with it."""
    found = {number: FailedRow(number) for number in numbers}
    revived = yield from _revive(numbers, found, "its flow")
    stopped = [number for number in numbers if number not in revived]
    if stopped:
        wanted = [
            {
                "id": number,
                "state": State.READY.value,
                "reason": "retried by its flow",
                "keyed": False,
            }
            for number in stopped
        ]
        yield Ask("revive_stopped_flows", {"rows": rows.packed(wanted)})
        yield Ask("remove_history", {"ids": stopped})


def _revive(
    numbers: Sequence[int], failed: Mapping[int, FailedRow], who: str
) -> Operation[list[int]]:
    exclusive = yield from _exclusive(one.schedule_id for one in failed.values())
    keyed = yield from _keyed(failed.values())
    reason = f"retried by {who}" if who else "retried"
    wanted = []
    for number in numbers:
        if number not in failed:
            continue
        schedule = failed[number].schedule_id
        state = State.BLOCKED if exclusive.get(schedule) else State.READY
        if schedule in exclusive:
            exclusive[schedule] = True
        wanted.append(
            {"id": number, "state": state.value, "reason": reason, "keyed": number in keyed}
        )
    if not wanted:
        return []
    revived = {number for (number,) in (yield Ask("revive_jobs", {"rows": rows.packed(wanted)}))}
    yield Ask("forget_failed", {"ids": sorted(revived)})
    return [number for number in numbers if number in revived]


def _keyed(failed: Iterable[FailedRow]) -> Operation[set[int]]:
    """Give jobs their keys back unless another job has them; return the jobs that have theirs.

    Of several that had the same key, the last one asked for gets it.
    """
    mine = {(one.task, one.key): one.id for one in failed if one.key is not None}
    if not mine:
        return set()
    taken = yield Ask("take_keys", {"batch": _batch(mine)})
    holders = {(task, key): number for task, key, number in taken}
    looked = rows.packed({"id": number} for number in sorted(set(holders.values())))
    live = {number for number, _ in (yield Ask("keyed_jobs", {"batch": looked}))}
    free = {name: number for name, number in mine.items() if holders[name] not in live}
    if free:
        yield Ask("point_keys", {"batch": _batch(free)})
    return set(free.values())


def _batch(keys: Mapping[tuple[str, str], int]) -> str:
    return rows.packed(
        {"task": task, "key": key, "id": number} for (task, key), number in keys.items()
    )


def _exclusive(wanted: Iterable[int | None]) -> Operation[dict[int | None, bool]]:
    """Return the schedules whose jobs must not overlap, and whether one of them is alive."""
    ids = sorted({schedule for schedule in wanted if schedule is not None})
    if not ids:
        return {}
    held = rows.schedules((yield Ask("hold_schedules", {"ids": ids})))
    live = {row[0] for row in (yield Ask("live_jobs", {"ids": ids}))}
    return {
        row.id: row.id in live
        for row in held
        if rows.schedule(row).plan.policies.overlap != "allow"
    }


def checked(first: int | None) -> int:
    """Return how many jobs to retry."""
    if first is None:
        return MOST
    if type(first) is not int or first < 0:
        raise InvalidValue(
            f"first={first!r}: expected a whole number from 0, or None for all matching jobs"
        )
    return first

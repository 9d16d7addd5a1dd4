"""How many moments rules on different clocks share, without walking along them.

While no clock changes, all the clocks stand a fixed distance apart. Seen from the first one,
another rule's wall times are then the same set, moved by that distance: minutes that cross midnight
belong to the neighbouring day. What two sets share is a set again, and it is counted. Only the
hours around a clock change are walked.
"""

from collections.abc import Callable, Iterator, Sequence

from duly.rules.bits import full
from duly.rules.budget import spend
from duly.rules.days import MovedDays
from duly.rules.wall import DAY, MINUTE, MINUTES, NO_TIME, Wall
from duly.rules.zone import Zone

Clocked = tuple[Wall, Zone]
Stretch = tuple[int, int]  # after the first instant, until the second


def shared_count(
    rules: Sequence[Clocked], after: int, until: int, walk: Callable[[int, int], int]
) -> int:
    """Count what all the rules share in ``(after, until]``; ``walk`` counts a short stretch."""
    shared: dict[tuple[int, ...], list[Wall]] = {}
    count = 0
    for calm, (start, end) in _stretches([zone for _, zone in rules], after, until):
        spend(len(rules))
        offsets = tuple(zone.offsets[zone.segment(end)] for _, zone in rules)
        if not calm or any((offset - offsets[0]) % MINUTE for offset in offsets):
            count += walk(start, end)
            continue
        if offsets not in shared:
            shared[offsets] = _common([wall for wall, _ in rules], offsets)
        low, high = start + 1 + offsets[0], end + 1 + offsets[0]
        count += sum(wall.count_before(high) - wall.count_before(low) for wall in shared[offsets])
    return count


def _stretches(zones: Sequence[Zone], after: int, until: int) -> Iterator[tuple[bool, Stretch]]:
    """The time asked about, cut at the clock changes; those themselves are not calm."""
    changes = sorted(
        (zone.starts[k] - abs(jump), zone.starts[k] + abs(jump))
        for zone in set(zones)
        for k in range(max(zone.segment(after - DAY), 0) + 1, zone.segment(until + DAY) + 1)
        if (jump := zone.offsets[k] - zone.offsets[k - 1])
        and after < zone.starts[k] + abs(jump)
        and zone.starts[k] - abs(jump) <= until
    )
    at = after
    for begin, end in changes:
        if at < begin - 1:
            yield True, (at, min(begin - 1, until))
            at = min(begin - 1, until)
        if at < end and at < until:
            yield False, (at, min(end, until))
            at = min(end, until)
    if at < until:
        yield True, (at, until)


def _common(walls: Sequence[Wall], offsets: Sequence[int]) -> list[Wall]:
    """The wall times that all have in common, on the first one's clock, in disjoint parts."""
    common = [walls[0]]
    for wall, offset in zip(walls[1:], offsets[1:], strict=True):
        moved = list(_moved(wall, (offset - offsets[0]) // MINUTE))
        spend(len(common) * len(moved))
        parts = [ours & theirs for ours in common for theirs in moved]
        common = [part for part in parts if part is not NO_TIME]
    return common


def _moved(wall: Wall, ahead: int) -> Iterator[Wall]:
    """The wall times as shown by a clock that is ``ahead`` minutes behind."""
    for days in (-2, -1, 0, 1, 2):
        shift = ahead - days * MINUTES
        minutes = wall.minutes >> shift if shift > 0 else wall.minutes << -shift
        minutes &= full(0, MINUTES - 1)
        if minutes:
            yield Wall(MovedDays(wall.days, days) if days else wall.days, minutes, wall.seconds)

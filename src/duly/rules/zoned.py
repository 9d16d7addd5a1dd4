"""Wall-clock times in a zone: the kind of rule that cron lines and calendars become.

The zone has segments of constant offset and, for the chosen ``fold``, a window of wall times that
count in each (see ``zone``). Inside a window a moment is a wall time minus the offset. Where the
clock jumped forward, lost wall times may be made up for at the start of the next segment.

``shared_count`` counts the moments that rules in different zones share without iterating over
them. While no clock changes, the clocks are a fixed distance apart. Seen from the first zone, the
wall times of another rule are then the same set, shifted by that distance; minutes that cross
midnight belong to the neighbouring day. The intersection is a set again, and is counted. Only the
hours around a clock change are visited one by one.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial, reduce

from duly.rules.budget import spend
from duly.rules.days import MovedDays, full
from duly.rules.explain import sentence
from duly.rules.rule import Rule
from duly.rules.wall_times import DAY, MINUTE, MINUTES, NO_TIME, WallTimes
from duly.rules.zone import LONGEST_MADE_UP, Dst, Windows, Zone, windows, zone_named

Clocked = tuple[WallTimes, Zone]
Stretch = tuple[int, int]  # after the first instant, until the second


@dataclass(frozen=True, repr=False)
class Zoned(Rule):
    """Wall times in a zone, with a policy for clock changes.

    Two of them are equal if they have the same meaning, whatever their texts are.
    """

    wall: WallTimes
    zone: str
    dst: Dst
    text: str = field(compare=False)
    stated: bool = field(default=True, compare=False)

    @property
    def stated_zone(self) -> str | None:
        return self.zone if self.stated else None

    def after_us(self, instant: int) -> int | None:
        starts, offsets, lows, highs = self._segments
        k = bisect_right(starts, instant) - 1
        if self.dst.gap != "shift":  # the usual case, in one step
            offset, low = offsets[k], lows[k]
            wall = instant + 1 + offset
            found = self.wall.next(wall if wall > low else low)
            if found is not None and found < highs[k]:
                return found - offset
        elif (moment := self._first_in(k, instant + 1)) is not None:
            return moment
        while k + 1 < len(starts):
            found = self.wall.next(min(highs[k], lows[k + 1]))
            if found is None:
                return None
            k = max(k + 1, self._zone.segment(found - DAY))
            if (moment := self._first_in(k, starts[k])) is not None:
                return moment
        return None

    def at_or_before_us(self, instant: int) -> int | None:
        starts, _, _, highs = self._segments
        k = bisect_right(starts, instant) - 1
        moment = self._last_in(k, instant)
        while moment is None and k:
            found = self.wall.previous(highs[k - 1] - 1)
            if found is None:
                return None
            k = min(k - 1, self._zone.segment(found + DAY))
            moment = self._last_in(k, starts[k + 1] - 1)
        return moment

    def count_us(self, after: int, until: int) -> int:
        starts, offsets, lows, highs = self._segments
        count = 0
        segments = range(bisect_right(starts, after) - 1, bisect_right(starts, until))
        spend(len(segments))
        for k in segments:
            offset = offsets[k]
            low = max(lows[k], after + 1 + offset)
            high = min(highs[k], until + 1 + offset)
            if low < high:
                count += self.wall.count_before(high) - self.wall.count_before(low)
            count += sum(after < moment <= until for moment in self._made_up(k))
        return count

    def shared_count_us(self, others: Sequence[Rule], after: int, until: int) -> int:
        rules = [self, *(other for other in others if isinstance(other, Zoned))]
        if len(rules) <= len(others) or any(type(rule.wall) is not WallTimes for rule in rules):
            return super().shared_count_us(others, after, until)
        if all(self._on_the_same_clock(rule) for rule in rules):
            return self._shared_on_this_clock(rules, after, until)
        clocked = [(rule.wall, zone_named(rule.zone)) for rule in rules]
        walk = partial(Rule.shared_count_us, self, rules[1:])
        return shared_count(clocked, after, until, walk)

    def _on_the_same_clock(self, other: "Zoned") -> bool:
        shifted = "shift" in (self.dst.gap, other.dst.gap)
        return self.zone == other.zone and self.dst.fold == other.dst.fold and not shifted

    def _shared_on_this_clock(self, rules: "Sequence[Zoned]", after: int, until: int) -> int:
        """Count the wall times that all rules share, and the gaps that all make up for."""
        wall = reduce(WallTimes.__and__, [rule.wall for rule in rules])
        shared = Zoned(wall, self.zone, Dst("", "skip", self.dst.fold), "")
        count = shared.count_us(after, until)
        changes = range(self._zone.segment(after) + 1, self._zone.segment(until) + 1)
        spend(len(changes) * len(rules))
        for k in changes:
            start = self._zone.starts[k]
            together = all(rule.at_or_before_us(start) == start for rule in rules)
            count += together and shared.at_or_before_us(start) != start
        return count

    def explain(self) -> str:
        return sentence(self.wall, self.zone)

    def __str__(self) -> str:
        return self.text

    @cached_property
    def _zone(self) -> Zone:
        return zone_named(self.zone)

    @cached_property
    def _windows(self) -> Windows:
        return windows(self._zone, self.dst.fold)

    @cached_property
    def _segments(self) -> tuple[list[int], list[int], list[int], list[int]]:
        """Starts, offsets, lows and highs in one tuple, because every query needs them."""
        return self._zone.starts, self._zone.offsets, *self._windows

    def _first_in(self, k: int, instant: int) -> int | None:
        """Return the first moment of segment ``k`` at or after ``instant``."""
        _, offsets, lows, highs = self._segments
        wall = self.wall.next(max(lows[k], instant + offsets[k]))
        found = None if wall is None or wall >= highs[k] else wall - offsets[k]
        for moment in self._made_up(k):
            if moment >= instant:
                return moment if found is None else min(moment, found)
        return found

    def _last_in(self, k: int, instant: int) -> int | None:
        """Return the last moment of segment ``k`` at or before ``instant``."""
        _, offsets, lows, highs = self._segments
        wall = self.wall.previous(min(highs[k] - 1, instant + offsets[k]))
        found = None if wall is None or wall < lows[k] else wall - offsets[k]
        for moment in reversed(self._made_up(k)):
            if moment <= instant:
                return moment if found is None else max(moment, found)
        return found

    def _made_up(self, k: int) -> list[int]:
        """Return the moments that make up for wall times lost when segment ``k`` began.

        A moment that the rule has anyway is not included.
        """
        found = self._made_up_before.get(k)
        if found is None:
            found = self._made_up_before[k] = self._make_up(k)
        return found

    @cached_property
    def _made_up_before(self) -> dict[int, list[int]]:
        return {}

    def _make_up(self, k: int) -> list[int]:
        gap = self._zone.gap_before(k)
        if gap is None or self.dst.gap == "skip" or gap[1] - gap[0] > LONGEST_MADE_UP:
            return []
        walls = []
        lost = self.wall.next(gap[0])
        while lost is not None and lost < gap[1]:
            if self.dst.gap == "end":
                walls.append(gap[1])
                break
            walls.append(lost + gap[1] - gap[0])
            lost = self.wall.next(lost + 1)
        offset = self._zone.offsets[k]
        return [wall - offset for wall in walls if self.wall.next(wall) != wall]


def shared_count(
    rules: Sequence[Clocked], after: int, until: int, walk: Callable[[int, int], int]
) -> int:
    """Count what all the rules share in ``(after, until]``; ``walk`` counts a short stretch."""
    shared: dict[tuple[int, ...], list[WallTimes]] = {}
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
    """Split a time range at clock changes; the hours around a change are not calm."""
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


def _common(walls: Sequence[WallTimes], offsets: Sequence[int]) -> list[WallTimes]:
    """Return the common wall times of all rules in the first one's zone, in disjoint parts."""
    common = [walls[0]]
    for wall, offset in zip(walls[1:], offsets[1:], strict=True):
        moved = list(_moved(wall, (offset - offsets[0]) // MINUTE))
        spend(len(common) * len(moved))
        parts = [ours & theirs for ours in common for theirs in moved]
        common = [part for part in parts if part is not NO_TIME]
    return common


def _moved(wall: WallTimes, ahead: int) -> Iterator[WallTimes]:
    """Yield the wall times as shown by a clock that is ``ahead`` minutes behind."""
    for days in (-2, -1, 0, 1, 2):
        shift = ahead - days * MINUTES
        minutes = wall.minutes >> shift if shift > 0 else wall.minutes << -shift
        minutes &= full(0, MINUTES - 1)
        if minutes:
            yield WallTimes(
                MovedDays(wall.days, days) if days else wall.days, minutes, wall.seconds
            )

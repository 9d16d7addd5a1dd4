"""A graph in layers, from left to right: where each step stands, and which way its lines take.

A step stands in the layer behind the last of the steps before it. A line that passes over layers
has a place of its own in each. Within a layer, what is connected stands near each other: the order
that crosses least of some that were tried, by the middle of the neighbours on either side. Then
each is moved towards its neighbours, as far as those above and below allow. Equal graphs come out
equal: nothing is left to chance.
"""

from bisect import bisect_right, insort
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

SWEEPS: Final = 8
ROUNDS: Final = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """How high a step is, and a line that passes; and what is left free between two of them."""

    high: float
    thin: float
    gap: float


@dataclass(frozen=True, slots=True)
class Place:
    layer: int
    middle: float  # from above


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    places: Sequence[Place]  # of each step
    routes: Sequence[Sequence[int]]  # of each line: a step, the places it passes, a step
    points: Sequence[Place]  # steps, and behind them the places that lines pass
    layers: int
    height: float


def laid_out(before: Sequence[Sequence[int]], sizes: Sizes) -> Layout:
    """``before`` has for each step those that it follows, which have lower numbers."""
    graph = _Graph(before)
    graph.untangle()
    middles, height = graph.settled(sizes)
    points = [Place(layer, middles[one]) for one, layer in enumerate(graph.layer)]
    return Layout(
        places=points[: len(before)],
        routes=graph.routes,
        points=points,
        layers=len(graph.rows),
        height=height,
    )


class _Graph:
    """Steps and places by number, and the rows of numbers that the layers are."""

    def __init__(self, before: Sequence[Sequence[int]]) -> None:
        self.steps = len(before)
        self.layer: list[int] = []
        for numbers in before:
            self.layer.append(max((self.layer[one] + 1 for one in numbers), default=0))
        self.left: list[list[int]] = [[] for _ in before]
        self.right: list[list[int]] = [[] for _ in before]
        self.routes = [self._route(one, step) for step, many in enumerate(before) for one in many]
        self.rows: list[list[int]] = [[] for _ in range(max(self.layer, default=-1) + 1)]
        for one, layer in enumerate(self.layer):
            self.rows[layer].append(one)

    def _route(self, start: int, end: int) -> list[int]:
        """A line that passes over layers has a place in each of them."""
        route = [start]
        for layer in range(self.layer[start] + 1, self.layer[end]):
            self.layer.append(layer)
            self.left.append([])
            self.right.append([])
            route.append(len(self.layer) - 1)
        route.append(end)
        for one, other in pairwise(route):
            self.right[one].append(other)
            self.left[other].append(one)
        return route

    def untangle(self) -> None:
        """Order the rows; of all orders that come up, the first that crosses least stays."""
        best, fewest = [list(row) for row in self.rows], self._crossings()
        for sweep in range(SWEEPS):
            if not fewest:
                break
            forwards = sweep % 2 == 0
            beside = self.left if forwards else self.right
            for row in self.rows if forwards else self.rows[::-1]:
                self._sort(row, beside)
            crossings = self._crossings()
            if crossings < fewest:
                best, fewest = [list(row) for row in self.rows], crossings
        self.rows = best

    def _sort(self, row: list[int], beside: Sequence[Sequence[int]]) -> None:
        at = {one: place for other in self.rows for place, one in enumerate(other)}
        middle = {one: _mean([at[other] for other in beside[one]], at[one]) for one in row}
        row.sort(key=lambda one: (middle[one], at[one]))

    def _crossings(self) -> int:
        at = {one: place for row in self.rows for place, one in enumerate(row)}
        found = 0
        for row in self.rows:
            ends: list[int] = []
            for one in row:
                here = sorted(at[other] for other in self.right[one])
                found += sum(len(ends) - bisect_right(ends, place) for place in here)
                for place in here:
                    insort(ends, place)
        return found

    def settled(self, sizes: Sizes) -> tuple[list[float], float]:
        """The middle of each, and how high all of it is."""
        middles = [0.0] * len(self.layer)
        for row in self.rows:
            for one, middle in zip(row, self._spread(row, [0.0] * len(row), sizes), strict=True):
                middles[one] = middle
        for turn in range(ROUNDS):
            for row in self.rows if turn % 2 == 0 else self.rows[::-1]:
                wanted = [
                    _mean(
                        [middles[other] for other in (*self.left[one], *self.right[one])],
                        middles[one],
                    )
                    for one in row
                ]
                for one, middle in zip(row, self._spread(row, wanted, sizes), strict=True):
                    middles[one] = middle
        halves = [self._high(one, sizes) / 2 for one in range(len(middles))]
        top = min((m - h for m, h in zip(middles, halves, strict=True)), default=0.0)
        bottom = max((m + h for m, h in zip(middles, halves, strict=True)), default=0.0)
        return [middle - top for middle in middles], bottom - top

    def _spread(self, row: Sequence[int], wanted: Sequence[float], sizes: Sizes) -> list[float]:
        """As near to what is wanted as the order and the room between them allow."""
        offsets = [0.0]
        for above, below in pairwise(row):
            apart = (self._high(above, sizes) + self._high(below, sizes)) / 2 + sizes.gap
            offsets.append(offsets[-1] + apart)
        rising = _rising(want - offset for want, offset in zip(wanted, offsets, strict=False))
        return [found + offset for found, offset in zip(rising, offsets, strict=False)]

    def _high(self, one: int, sizes: Sizes) -> float:
        return sizes.high if one < self.steps else sizes.thin


def _rising(wanted: Iterable[float]) -> list[float]:
    """The nearest values of which none is below the one before: what falls is put together."""
    groups: list[tuple[float, int]] = []  # a sum, and of how many
    for want in wanted:
        total, count = want, 1
        while groups and groups[-1][0] / groups[-1][1] > total / count:
            more, others = groups.pop()
            total, count = total + more, count + others
        groups.append((total, count))
    return [total / count for total, count in groups for _ in range(count)]


def _mean(values: Sequence[float], otherwise: float) -> float:
    return sum(values) / len(values) if values else otherwise

"""Layered layout of a flow's graph, from left to right, and its drawing.

A step is in the layer after the last of its dependencies. An edge that spans several layers gets a
dummy node in each layer between. The nodes of a layer are ordered by the mean position of their
neighbours, in several sweeps; the order with the fewest crossings is kept. Then each node is moved
towards its neighbours, as far as the nodes above and below allow. The layout is deterministic:
equal graphs get equal layouts.
"""

from bisect import bisect_right, insort
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Final

from markupsafe import Markup

from duly.durations import about
from duly.policy.redaction import shortened
from duly.views.flow import AWAITING, FlowView, StepView
from duly.web.rendering import shown
from duly.web.svg.drawing import framed, number, rectangle, text, titled

SWEEPS: Final = 8
ROUNDS: Final = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """The height of a step and of a dummy node, and the gap between two nodes of a layer."""

    high: float
    thin: float
    gap: float


@dataclass(frozen=True, slots=True)
class NodePlace:
    layer: int
    middle: float  # vertical centre, from the top


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    places: Sequence[NodePlace]  # of each step
    routes: Sequence[Sequence[int]]  # node numbers of each edge: step, dummy nodes, step
    points: Sequence[NodePlace]  # of all nodes: the steps, then the dummy nodes
    layers: int
    height: float


def laid_out(before: Sequence[Sequence[int]], sizes: Sizes) -> Layout:
    """Lay out the graph; ``before`` has the dependencies of each step, which have lower numbers."""
    graph = _Graph(before)
    graph.untangle()
    middles, height = graph.settled(sizes)
    points = [NodePlace(layer, middles[one]) for one, layer in enumerate(graph.layer)]
    return Layout(
        places=points[: len(before)],
        routes=graph.routes,
        points=points,
        layers=len(graph.rows),
        height=height,
    )


class _Graph:
    """The nodes (steps, then dummy nodes) by number, and the layers as rows of node numbers."""

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
        """Add an edge and a dummy node in each layer that it passes; return its node numbers."""
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
        """Order the nodes of each layer; keep the first order found with the fewest crossings."""
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
        """Return the vertical centre of each node, and the height of the graph."""
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
        """Return the centres nearest to ``wanted`` that keep the row's order and gaps."""
        offsets = [0.0]
        for above, below in pairwise(row):
            apart = (self._high(above, sizes) + self._high(below, sizes)) / 2 + sizes.gap
            offsets.append(offsets[-1] + apart)
        rising = _rising(want - offset for want, offset in zip(wanted, offsets, strict=False))
        return [found + offset for found, offset in zip(rising, offsets, strict=False)]

    def _high(self, one: int, sizes: Sizes) -> float:
        return sizes.high if one < self.steps else sizes.thin


def _rising(wanted: Iterable[float]) -> list[float]:
    """Return the nearest non-decreasing values: falling neighbours are replaced by their mean."""
    groups: list[tuple[float, int]] = []  # the sum and the count of pooled values
    for want in wanted:
        total, count = want, 1
        while groups and groups[-1][0] / groups[-1][1] > total / count:
            more, others = groups.pop()
            total, count = total + more, count + others
        groups.append((total, count))
    return [total / count for total, count in groups for _ in range(count)]


def _mean(values: Sequence[float], otherwise: float) -> float:
    return sum(values) / len(values) if values else otherwise


MOST_STEPS: Final = 200
MOST_LINES: Final = 600
MOST_PASSED: Final = 2_000  # dummy nodes of all edges together
WIDE, HIGH = 172, 54
BETWEEN: Final = 44  # columns
SIZES: Final = Sizes(high=HIGH, thin=8, gap=20)
SIDE, ABOVE = 1, 10
INSET: Final = 12
STACK: Final = 4
LONGEST_NAME: Final = 20
STATES: Final = {AWAITING: "awaiting"}


def draw_flow(flow: FlowView, link: Callable[[StepView], str | None]) -> Markup | None:
    """Draw the flow; None if it is too large. ``link`` returns the URL of a step, if it has one."""
    before = tuple(tuple(one - 1 for one in step.before) for step in flow.items)
    if not _fits(before):
        return None
    layout = _laid_out(before)
    critical = {*pairwise(step.number - 1 for step in flow.critical)}
    lines = sorted(_lines(layout, critical), key=lambda one: one[0])
    boxes = (
        _step(step, place, link(step))
        for step, place in zip(flow.items, layout.places, strict=True)
    )
    return framed(
        [*(line for _, line in lines), *boxes],
        width=layout.layers * (WIDE + BETWEEN) - BETWEEN + 2 * SIDE,
        height=layout.height + 2 * ABOVE,
        label=f"The steps of the flow: {flow.sentence}",
        kind="flow-graph",
        links=True,
    )


@lru_cache(maxsize=64)  # a live page is drawn every second, mostly with the same layout
def _laid_out(before: tuple[tuple[int, ...], ...]) -> Layout:
    return laid_out(before, SIZES)


def _fits(before: Sequence[Sequence[int]]) -> bool:
    """Return whether the graph is small enough to be readable and to be drawn every second."""
    if len(before) > MOST_STEPS or sum(map(len, before)) > MOST_LINES:
        return False
    layers: list[int] = []
    passed = 0
    for numbers in before:
        layers.append(max((layers[one] + 1 for one in numbers), default=0))
        passed += sum(layers[-1] - layers[one] - 1 for one in numbers)
    return passed <= MOST_PASSED


def _lines(layout: Layout, critical: Collection[tuple[int, int]]) -> Iterator[tuple[bool, Markup]]:
    """Yield each edge and whether it is on the critical path; those are drawn last, on top."""
    for route in layout.routes:
        heavy = (route[0], route[-1]) in critical
        path = _path([layout.points[one] for one in route])
        kind = "way critical" if heavy else "way"
        yield heavy, Markup('<path d="{}" class="{}"/>').format(path, kind)


def _path(points: Sequence[NodePlace]) -> str:
    """Return the path of an edge, from the right side of a step to the left side of another."""
    bend = BETWEEN / 2
    said = [f"M{number(_left(points[0]) + WIDE)} {number(_middle(points[0]))}"]
    for one, other in pairwise(points):
        x, y, to = _left(one) + WIDE, _middle(one), _left(other)
        said.append(f"C{number(x + bend)} {number(y)} {number(to - bend)} {number(_middle(other))}")
        said.append(f"{number(to)} {number(_middle(other))}")
        if other is not points[-1]:
            said.append(f"H{number(to + WIDE)}")
    return " ".join(said)


def _step(step: StepView, place: NodePlace, link: str | None) -> Markup:
    x, y = float(_left(place)), _middle(place) - HIGH / 2
    parts = Markup("").join([titled(_told(step)), *_box(step, x, y), *_words(step, x, y)])
    kind = f"step at-{STATES.get(step.word, step.word)}{' critical' if step.critical else ''}"
    if link is None:
        return Markup('<g class="{}">{}</g>').format(kind, parts)
    return Markup('<a href="{}" class="{}" aria-label="{}">{}</a>').format(
        link, kind, _told(step), parts
    )


def _box(step: StepView, x: float, y: float) -> Iterator[Markup]:
    for back in (2 * STACK, STACK) if step.is_map else ():
        yield rectangle(
            x + back, y - back, width=WIDE - back, height=HIGH, kind="box behind", radius=8
        )
    wide = WIDE - (2 * STACK if step.is_map else 0)
    yield rectangle(x, y, width=wide, height=HIGH, kind="box", radius=8)
    if step.is_map and step.parts:
        done = step.done / step.parts
        full = wide - 2 * INSET
        for kind, width in (("bar", full), ("bar done", full * done)):
            yield rectangle(x + INSET, y + HIGH - 8, width=width, height=3, kind=kind, radius=1.5)


def _words(step: StepView, x: float, y: float) -> Iterator[Markup]:
    """Yield the text of a step: name and progress; below them, state and duration."""
    right = x + WIDE - INSET - (2 * STACK if step.is_map else 0)
    room = LONGEST_NAME - (len(step.progress) + 1 if step.progress else 0)
    yield text(x + INSET, y + 21, shortened(shown(step.name), room), kind="name")
    if step.progress:
        yield text(right, y + 21, step.progress, kind="far", anchor="end")
    yield Markup(
        '<text x="{}" y="{}" class="word"><tspan class="mark">{}</tspan> {}</text>'
    ).format(number(x + INSET), number(y + 39), step.mark, step.word)
    if step.length is not None and step.word != AWAITING:
        yield text(right, y + 39, about(step.length), kind="took", anchor="end")


def _told(step: StepView) -> str:
    """Return the tooltip of a step: name, state, progress, duration and reason."""
    took = "" if step.length is None else f", {about(step.length)}"
    far = f", {step.progress}" if step.progress else ""
    why = f": {shown(step.reason)}" if step.word in ("failed", "cancelled") else ""
    return f"{shown(step.name)}, {step.word}{far}{took}{why}".rstrip(": ")


def _left(place: NodePlace) -> int:
    return SIDE + place.layer * (WIDE + BETWEEN)


def _middle(place: NodePlace) -> float:
    return ABOVE + place.middle

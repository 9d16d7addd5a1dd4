"""The steps of a flow as a graph, from left to right: who waits for whom, and how far each is.

A step is a box; one over a list is a stack of them, with a bar for its parts; one that waits for
somebody has a dashed border. The way that decides when the flow ends is drawn heavier.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Final

from markupsafe import Markup

from duly.policy.why import about
from duly.views.flow_page import AWAITING, FlowSeen, StepSeen
from duly.web.svg.drawing import framed, number, rectangle, text, titled
from duly.web.svg.layers import Layout, Place, Sizes, laid_out
from duly.web.task_text import shown

MOST_STEPS: Final = 200
MOST_LINES: Final = 600
MOST_PASSED: Final = 2_000  # layers that lines pass over, all together
WIDE, HIGH = 172, 54
BETWEEN: Final = 44  # columns
SIZES: Final = Sizes(high=HIGH, thin=8, gap=20)
SIDE, ABOVE = 1, 10
INSET: Final = 12
STACK: Final = 4
LONGEST_NAME: Final = 20
STATES: Final = {AWAITING: "awaiting"}


def draw_flow(flow: FlowSeen, link: Callable[[StepSeen], str | None]) -> Markup | None:
    """None: there is too much to be drawn. ``link`` is the address of what a step opens."""
    before = tuple(step.info.before for step in flow.steps)
    if not _fits(before):
        return None
    layout = _laid_out(before)
    critical = {*pairwise(step.info.number for step in flow.critical)}
    lines = sorted(_lines(layout, critical), key=lambda one: one[0])
    boxes = (
        _step(step, place, link(step))
        for step, place in zip(flow.steps, layout.places, strict=True)
    )
    return framed(
        [*(line for _, line in lines), *boxes],
        width=layout.layers * (WIDE + BETWEEN) - BETWEEN + 2 * SIDE,
        height=layout.height + 2 * ABOVE,
        label=f"The steps of the flow: {flow.told}",
        kind="flow-graph",
        links=True,
    )


@lru_cache(maxsize=64)  # a page that is looked at is drawn every second, and stands as it stood
def _laid_out(before: tuple[tuple[int, ...], ...]) -> Layout:
    return laid_out(before, SIZES)


def _fits(before: Sequence[Sequence[int]]) -> bool:
    """Whether it is little enough to be looked at, and to be drawn every second."""
    if len(before) > MOST_STEPS or sum(map(len, before)) > MOST_LINES:
        return False
    layers: list[int] = []
    passed = 0
    for numbers in before:
        layers.append(max((layers[one] + 1 for one in numbers), default=0))
        passed += sum(layers[-1] - layers[one] - 1 for one in numbers)
    return passed <= MOST_PASSED


def _lines(layout: Layout, critical: Collection[tuple[int, int]]) -> Iterator[tuple[bool, Markup]]:
    """Each with whether it is heavy: those are drawn above the others."""
    for route in layout.routes:
        heavy = (route[0], route[-1]) in critical
        path = _path([layout.points[one] for one in route])
        kind = "way critical" if heavy else "way"
        yield heavy, Markup('<path d="{}" class="{}"/>').format(path, kind)


def _path(points: Sequence[Place]) -> str:
    """From the right of a step to the left of another, straight through what it passes."""
    bend = BETWEEN / 2
    said = [f"M{number(_left(points[0]) + WIDE)} {number(_middle(points[0]))}"]
    for one, other in pairwise(points):
        x, y, to = _left(one) + WIDE, _middle(one), _left(other)
        said.append(f"C{number(x + bend)} {number(y)} {number(to - bend)} {number(_middle(other))}")
        said.append(f"{number(to)} {number(_middle(other))}")
        if other is not points[-1]:
            said.append(f"H{number(to + WIDE)}")
    return " ".join(said)


def _step(step: StepSeen, place: Place, link: str | None) -> Markup:
    x, y = float(_left(place)), _middle(place) - HIGH / 2
    parts = Markup("").join([titled(_told(step)), *_box(step, x, y), *_words(step, x, y)])
    kind = f"step at-{STATES.get(step.word, step.word)}{' critical' if step.is_critical else ''}"
    if link is None:
        return Markup('<g class="{}">{}</g>').format(kind, parts)
    return Markup('<a href="{}" class="{}" aria-label="{}">{}</a>').format(
        link, kind, _told(step), parts
    )


def _box(step: StepSeen, x: float, y: float) -> Iterator[Markup]:
    for back in (2 * STACK, STACK) if step.is_map else ():
        yield rectangle(
            x + back, y - back, width=WIDE - back, height=HIGH, kind="box behind", radius=8
        )
    wide = WIDE - (2 * STACK if step.is_map else 0)
    yield rectangle(x, y, width=wide, height=HIGH, kind="box", radius=8)
    if step.is_map and step.info.parts:
        done = step.done / step.info.parts
        full = wide - 2 * INSET
        for kind, width in (("bar", full), ("bar done", full * done)):
            yield rectangle(x + INSET, y + HIGH - 8, width=width, height=3, kind=kind, radius=1.5)


def _words(step: StepSeen, x: float, y: float) -> Iterator[Markup]:
    """Its name, and how far it is; below, its state, and how long it took."""
    right = x + WIDE - INSET - (2 * STACK if step.is_map else 0)
    room = LONGEST_NAME - (len(step.far) + 1 if step.far else 0)
    yield text(x + INSET, y + 21, _short(shown(step.info.name), room), kind="name")
    if step.far:
        yield text(right, y + 21, step.far, kind="far", anchor="end")
    yield Markup(
        '<text x="{}" y="{}" class="word"><tspan class="mark">{}</tspan> {}</text>'
    ).format(number(x + INSET), number(y + 39), step.mark, step.word)
    if step.took is not None and step.word != AWAITING:
        yield text(right, y + 39, about(step.took), kind="took", anchor="end")


def _told(step: StepSeen) -> str:
    """The box in words."""
    took = "" if step.took is None else f", {about(step.took)}"
    far = f", {step.far}" if step.far else ""
    why = f": {shown(step.info.reason)}" if step.word in ("failed", "cancelled") else ""
    return f"{shown(step.info.name)}, {step.word}{far}{took}{why}".rstrip(": ")


def _short(name: str, longest: int) -> str:
    return name if len(name) <= longest else f"{name[: longest - 1]}…"


def _left(place: Place) -> int:
    return SIDE + place.layer * (WIDE + BETWEEN)


def _middle(place: Place) -> float:
    return ABOVE + place.middle

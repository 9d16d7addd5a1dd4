"""Charts as SVG, for docs/performance.md: bars for comparisons, small panels of lines for growth.

Colours follow the reader's scheme, light or dark: an SVG in an ``<img>`` knows it as a page does.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from math import log10
from pathlib import Path

from benchmarks.page import DOCS

STYLE = """
text { font: 13px system-ui, sans-serif; fill: #1c1917 }
.head { font-weight: 600 } .small { font-size: 11px } .ground { fill: #fff }
.duly { fill: #0f766e } .peer { fill: #78716c } .limit { fill: #d6d3d1 } .tail { opacity: .4 }
.grid { stroke: #e7e5e4 } .band { fill: #0f766e; opacity: .1 } .line { fill: none; stroke-width: 2 }
.first { stroke: #0f766e } .second { stroke: #b45309 }
.first-text { fill: #0f766e } .second-text { fill: #b45309 }
@media (prefers-color-scheme: dark) {
  text { fill: #e7e5e4 } .ground { fill: #1c1917 } .grid { stroke: #44403c }
  .duly { fill: #2dd4bf } .peer { fill: #a8a29e } .limit { fill: #57534e } .band { fill: #2dd4bf }
  .first { stroke: #2dd4bf } .second { stroke: #fbbf24 }
  .first-text { fill: #2dd4bf } .second-text { fill: #fbbf24 }
}
"""

WIDTH = 760
BAR, GAP, LEFT, RIGHT = 18, 6, 150, 120  # of bars: height, space, and room for names and figures
PANEL_WIDTH, PANEL_HEIGHT, MARGIN, COLUMNS = 380, 190, 46, 2


@dataclass(frozen=True, slots=True)
class Bar:
    name: str
    role: str  # a class of STYLE
    value: float
    text: str
    tail: float = 0  # a longer and paler bar behind


Sections = Mapping[str, Sequence[Bar]]  # by their headings; each has a scale of its own
Points = Sequence[tuple[float, float]]


def write(name: str, title: str, drawing: tuple[list[str], float]) -> None:
    lines, height = drawing
    path = Path(DOCS / "images" / f"performance-{name}.svg")
    size = f'viewBox="0 0 {WIDTH} {height:g}" width="{WIDTH}" height="{height:g}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">'
    ground = f'<rect class="ground" width="{WIDTH}" height="{height:g}"/>'
    told = f"<title>{escape(title)}</title>"
    path.write_text("\n".join([head, told, f"<style>{STYLE}</style>", ground, *lines, "</svg>\n"]))
    print(f"wrote {path.name}")


def bars(sections: Sections) -> tuple[list[str], float]:
    """Draw horizontal bars below the heading of their section."""
    lines: list[str] = []
    y = float(GAP)
    for heading, some in sections.items():
        lines.append(text(GAP, y + BAR - 5, heading, "head"))
        y += BAR + GAP
        longest = max(max(bar.value, bar.tail) for bar in some)
        scale = (WIDTH - LEFT - RIGHT) / longest if longest else 0
        for bar in some:
            lines.append(text(LEFT - 8, y + BAR - 5, bar.name, anchor="end"))
            end = LEFT + max(1, max(bar.value, bar.tail) * scale)
            if bar.tail:
                lines.append(box(LEFT, y, end - LEFT, f"{bar.role} tail"))
            lines.append(box(LEFT, y, max(1, bar.value * scale), bar.role))
            lines.append(text(end + 6, y + BAR - 5, bar.text))
            y += BAR + GAP
        y += 2 * GAP
    return lines, y - GAP


def box(x: float, y: float, width: float, kind: str, *, height: float = BAR) -> str:
    size = f'x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}"'
    return f'<rect {size} class="{kind}"/>'


def text(x: float, y: float, said: str, kind: str = "", *, anchor: str = "start") -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" class="{kind}"'
    return f"<text {place}>{escape(said)}</text>"


def panels(growing: Mapping[str, Mapping[str, Points]]) -> tuple[list[str], float]:
    """Draw a panel for each thing that grows, with a line for each database.

    A line is the cost over that of the smallest size; the band is ten per cent up and down.
    """
    lines: list[str] = []
    for number, (title, by_database) in enumerate(growing.items()):
        left = number % COLUMNS * PANEL_WIDTH
        top = number // COLUMNS * PANEL_HEIGHT
        lines += panel(left, top, title, by_database)
    return lines, -(-len(growing) // COLUMNS) * PANEL_HEIGHT


def panel(left: float, top: float, title: str, by_database: Mapping[str, Points]) -> Iterator[str]:
    relative = {
        name: [(size, cost / points[0][1]) for size, cost in points]
        for name, points in by_database.items()
    }
    sizes = sorted({size for points in relative.values() for size, _ in points})
    highest = max(1.5, *(cost for points in relative.values() for _, cost in points)) * 1.05
    x0, x1 = left + MARGIN, left + PANEL_WIDTH - 30
    y0, y1 = top + PANEL_HEIGHT - 32, top + 42
    span = log10(max(sizes[-1], 1)) - log10(max(sizes[0], 1)) or 1

    def at(size: float) -> float:
        return x0 + (log10(max(size, 1)) - log10(max(sizes[0], 1))) / span * (x1 - x0)

    def height(cost: float) -> float:
        return y0 - cost / highest * (y0 - y1)

    yield text(x0, top + 18, title, "head")
    yield box(x0, height(1.1), x1 - x0, "band", height=height(0.9) - height(1.1))
    for cost in (0, 1, round(highest) if highest >= 2 else 1.5):
        yield f'<path d="M{x0} {height(cost):.1f}H{x1}" class="grid"/>'
        yield text(x0 - 6, height(cost) + 4, f"{cost:g}×", "small", anchor="end")
    for size in sizes:
        yield text(at(size), y0 + 16, short(size), "small", anchor="middle")
    for number, (name, points) in enumerate(relative.items()):
        kind = ("first", "second")[number]
        path = " ".join(f"{at(size):.1f},{height(cost):.1f}" for size, cost in points)
        yield f'<polyline points="{path}" class="line {kind}"/>'
        yield text(x0 + number * 150, top + 34, f"– {name}", f"small {kind}-text")


def short(size: float) -> str:
    for power, word in ((6, "M"), (3, "k")):
        if size >= 10**power:
            return f"{size / 10**power:g}{word}"
    return f"{size:g}"

"""``--page``: write the figures of the run into docs/performance.md, with a chart.

The page keeps its text; the part between the two comments is replaced. Every question that was
asked is in the table, also where a peer is faster.
"""

import os
import platform
from collections.abc import Mapping, Sequence
from datetime import UTC
from html import escape
from pathlib import Path
from statistics import median

from benchmarks.queue.contestant import Contestant
from benchmarks.queue.report import Figures
from duly.clock import now

Kind = type[Contestant]

DOCS = Path(__file__).parents[2] / "docs"
PAGE = DOCS / "performance.md"
CHART = DOCS / "images" / "performance.svg"
CHARTED = "drain 1"
NOISY = 0.25  # the spread of the rounds, as a share of the median, from which a row is marked

BAR, GAP, LEFT, WIDTH = 18, 6, 210, 760
COLOURS = {"duly": "#0f766e", "peer": "#a8a29e", "limit": "#e7e5e4"}


def write_page(figures: Mapping[str, Figures], *, jobs: int, rounds: int) -> None:
    day = now().astimezone(UTC).date().isoformat()
    cores = os.cpu_count()
    said = (
        f"Measured on {day}: {cores} cores, Python {platform.python_version()}, {jobs:,} jobs, "
        f"{rounds} rounds.\n\n"
    )
    replace_part("figures", said + table(figures))
    if CHARTED in figures:
        CHART.write_text(chart(figures[CHARTED]))


def replace_part(name: str, part: str) -> None:
    """Replace what stands between the comments ``name`` and ``end of name`` of the page."""
    begin, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->\n"
    before, rest = PAGE.read_text().split(begin)
    _, after = rest.split(end)
    PAGE.write_text(f"{before}{begin}{part}{end}{after}")
    print(f"\nwrote {PAGE.name}")


def table(figures: Mapping[str, Figures]) -> str:
    head = (
        "| | database | duly | best peer | hand-written SQL | × peer | × SQL |\n"
        "| --- | --- | ---: | ---: | ---: | ---: | ---: |\n"
    )
    return head + "".join(
        row(asked, kind)
        for asked in figures.values()
        for kind in asked.answers
        if kind.role == "duly"
    )


def row(asked: Figures, kind: Kind) -> str:
    cells = [f"{asked.title}, {asked.unit}", kind.database, shown(asked, kind)]
    ratios = []
    for role in ("peer", "limit"):
        same = [one for one in asked.answers if (one.database, one.role) == (kind.database, role)]
        other = asked.best(same)
        label = f" ({short_name(other)})" if other and role == "peer" else ""
        cells.append(f"{shown(asked, other)}{label}" if other else "–")
        ratios.append(f"{asked.ratio(kind, other):.2f}" if other else "–")
    return f"| {' | '.join([*cells, *ratios])} |\n"


def shown(asked: Figures, kind: Kind) -> str:
    """The median, with a ~ where the rounds differed much."""
    answers = asked.answers[kind]
    middle = median(answers)
    noisy = middle and (max(answers) - min(answers)) / middle > NOISY
    return f"{'~' if noisy else ''}{middle:,.{asked.digits}f}"


def chart(asked: Figures) -> str:
    """Horizontal bars, grouped by database."""
    highest = max(median(answers) for answers in asked.answers.values())
    lines: list[str] = []
    y = GAP
    for database in dict.fromkeys(kind.database for kind in asked.answers):
        lines.append(label(0, y + BAR - 5, database, weight="600"))
        y += BAR + GAP
        for kind in [kind for kind in asked.answers if kind.database == database]:
            lines += bar(kind, asked.answers[kind], y, highest)
            y += BAR + GAP
        y += GAP
    style = "font:13px system-ui,sans-serif"
    title = f"<title>{escape(asked.title)}, {escape(asked.unit)}</title>"
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y}" style="{style}">'
    ground = f'<rect width="{WIDTH}" height="{y}" fill="#fff"/>'
    return "\n".join([head, title, ground, *lines, "</svg>\n"])


def bar(kind: Kind, answers: Sequence[float], y: int, highest: float) -> list[str]:
    middle = median(answers)
    width = max(1, middle / highest * (WIDTH - LEFT - 80))
    colour = COLOURS[kind.role]
    return [
        label(LEFT - 8, y + BAR - 5, short_name(kind), anchor="end"),
        f'<rect x="{LEFT}" y="{y}" width="{width:.1f}" height="{BAR}" fill="{colour}"/>',
        label(LEFT + width + 6, y + BAR - 5, f"{middle:,.0f}"),
    ]


def short_name(kind: Kind) -> str:
    """Return the name without the database."""
    return kind.name.removesuffix(f", {kind.database}")


def label(x: float, y: float, text: str, *, anchor: str = "start", weight: str = "400") -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-weight="{weight}"'
    return f'<text {place} fill="#1c1917">{escape(text)}</text>'

"""The day strip: results of the runs of the last 24 hours, and the number of coming runs.

Each hour is a bar whose height shows how many runs were due. Its segments are the shares of the
results, the worst on top, and its mark is that of the worst result. Coming hours are pale. Each bar
links to its hour.
"""

from collections.abc import Callable, Mapping
from datetime import datetime
from math import log2
from typing import Final

from markupsafe import Markup

from duly.rules import local_time
from duly.views.charts import ComingHour, HourCell, StripView

WIDTH, HEIGHT, BASE = 22, 74, 52  # cell width, chart height, y of the base line
LEAST, MOST = 4, 44  # height of a bar
VISIBLE: Final = 2  # least height of a segment
LABELLED: Final = 3  # one label every so many hours
_MARKS: Final = {"failed": "\u2715", "overdue": "\u25b2", "late": "\u25d2", "in progress": "\u25d0"}

Link = Callable[[datetime], str]


def strip(view: StripView, zone: str, link: Link) -> Markup:
    cells: list[HourCell | ComingHour] = [*view.hours, *view.coming]
    tallest = max([1, *(cell.counts.due for cell in view.hours), *(c.moments for c in view.coming)])
    parts = [
        _cell(cell, place, zone=zone, tallest=tallest, link=link)
        for place, cell in enumerate(cells)
    ]
    now = len(view.hours) * WIDTH
    wide = len(cells) * WIDTH
    return Markup(
        '<svg class="strip" viewBox="0 0 {wide} {high}" role="group" aria-label="{label}" '
        'preserveAspectRatio="xMinYMin meet">{parts}'
        '<line class="now" x1="{now}" y1="2" x2="{now}" y2="{base}"/>'
        '<text class="at-now" x="{now}" y="{low}" text-anchor="middle">now</text></svg>'
    ).format(
        wide=wide,
        high=HEIGHT,
        label=_label(view),
        parts=Markup("").join(parts),
        now=now,
        base=BASE + 4,
        low=HEIGHT - 4,
    )


def _cell(
    cell: HourCell | ComingHour, place: int, *, zone: str, tallest: int, link: Link
) -> Markup:
    start = local_time(cell.start, zone)
    if isinstance(cell, HourCell):
        count, kind, title = cell.counts.due, str(cell.worst), _said(cell)
        parts: Mapping[str, int] = dict(cell.counts.parts.items())
    else:
        count, kind, title = cell.moments, "coming", f"{cell.moments:,} coming"
        parts = {kind: count}
    high = LEAST + round((MOST - LEAST) * log2(1 + count) / log2(1 + tallest)) if count else 2
    name = Markup('<text x="{}" y="{}" text-anchor="middle">{:%H}</text>').format(
        place * WIDTH + WIDTH / 2, HEIGHT - 4, start
    )
    return Markup(
        '<a href="{link}" aria-label="{hour:%a %H:%M}: {title}">'
        "<title>{hour:%a %H:%M}\u2013{until} \u00b7 {title}</title>"
        '<rect class="hit" x="{left}" y="0" width="{wide}" height="{base}"/>'
        "{bar}{mark}</a>{name}"
    ).format(
        link=link(cell.start),
        hour=start,
        until=f"{(start.hour + 1) % 24:02}:{start.minute:02}",
        title=title,
        left=place * WIDTH,
        wide=WIDTH,
        base=BASE,
        bar=_bar(parts if count else {"none": 1}, place, high),
        mark=_mark(kind, place, BASE - high) if count else "",
        name=name if start.hour % LABELLED == 0 and abs(place - _NOW) > 1 else "",
    )


def _bar(parts: Mapping[str, int], place: int, high: int) -> Markup:
    """Draw the segments of a bar, from the bottom up."""
    total, top, drawn = sum(parts.values()), float(BASE), []
    shares = {kind: max(VISIBLE, high * n / total) for kind, n in parts.items() if n}
    scale = high / sum(shares.values())
    for kind, share in shares.items():
        top -= share * scale
        drawn.append(
            Markup('<rect class="{}" x="{}" y="{:.1f}" width="{}" height="{:.1f}" rx="1"/>').format(
                kind.replace(" ", "-"), place * WIDTH + 3, top, WIDTH - 6, share * scale
            )
        )
    return Markup("").join(drawn)


_NOW = 24  # index of the line of the current time; no hour label beside it


def _mark(kind: str, place: int, top: int) -> Markup:
    sign = _MARKS.get(kind)
    if sign is None:
        return Markup("")
    return Markup('<text class="sign {}" x="{}" y="{}" text-anchor="middle">{}</text>').format(
        kind.replace(" ", "-"), place * WIDTH + WIDTH / 2, max(top - 3, 8), sign
    )


def _said(cell: HourCell) -> str:
    counts = cell.counts
    parts = [f"{counts.due:,} due", f"{counts.succeeded:,} OK"]
    parts += [f"{counts.late:,} late"] if counts.late else []
    parts += [f"{counts.failed:,} missed or failed"] if counts.failed else []
    parts += [f"{counts.overdue:,} overdue"] if counts.overdue else []
    parts += [f"{counts.in_progress:,} in progress"] if counts.in_progress else []
    return ", ".join(parts) if counts.due else "nothing was due"


def _label(view: StripView) -> str:
    bad = [cell for cell in view.hours if cell.counts.failed or cell.counts.overdue]
    said = f"The last 24 hours: {view.counts.due:,} due, {view.counts.succeeded:,} OK"
    return f"{said}; not all OK in {len(bad)} of them" if bad else said

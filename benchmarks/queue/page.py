"""``--page``: write the figures of the run into docs/performance.md, with charts.

Every question that was asked is in the table, also where a peer is faster.
"""

from collections.abc import Mapping, Sequence
from statistics import median

from benchmarks import charts
from benchmarks.charts import Bar
from benchmarks.page import DOCS, measured, replace_part, rows_of, rows_on_page
from benchmarks.queue.contestant import Role, short_name
from benchmarks.queue.report import NOISY, Figures, Kind

HEAD = ["", "database", "mark", "duly", "best peer", "raw SQL", "× peer", "× SQL"]
EARLIER = " (an earlier run)"
PEERS = """\
The peer named is the best of those that keep their jobs through a crash of the machine; after it
stands Huey without waiting for the disk ("normal"), which does not.
"""


def write_page(
    figures: Mapping[str, Figures], *, jobs: int, rounds: int, notes: Sequence[str]
) -> None:
    rows = [
        row(asked, kind, figures)
        for asked in figures.values()
        for kind in asked.answers
        if kind.role == "duly"
    ]
    rows = with_earlier(rows, [title(asked) for asked in figures.values()])
    said = f"{measured()}, {jobs:,} jobs, {rounds} rounds. {' '.join(notes)}".strip() + "\n\n"
    links = ""
    for name, label, keys in (
        ("drain", "Jobs finished per second by one worker process", ["drain 1"]),
        ("enqueue", "Jobs enqueued per second", ["enqueue", "enqueue 32", "bulk"]),
        ("latency", "Milliseconds from enqueue to start", ["latency p50"]),
    ):
        if all(figures[key].answers for key in keys):
            charts.write(name, label, charts.bars(sections(figures, keys)))
        # Only a chart that some run has drawn is shown.
        if (DOCS / "images" / f"performance-{name}.svg").exists():
            links += f"\n![{label}](images/performance-{name}.svg)\n"
    replace_part("figures", f"{said}{rows_of([HEAD, *rows], left=3)}\n{PEERS}{links}")


def with_earlier(rows: list[list[str]], titles: Sequence[str]) -> list[list[str]]:
    """Keep the rows of questions that were not asked this time, and say so in them."""
    asked = {one[0] for one in rows}
    earlier = [
        [*one[:2], one[2].removesuffix(EARLIER) + EARLIER, *one[3:]]
        for one in rows_on_page("figures")
        if one[0] not in asked and one[0] in titles and len(one) == len(HEAD)
    ]
    return sorted([*earlier, *rows], key=lambda one: titles.index(one[0]))


def title(asked: Figures) -> str:
    return f"{asked.title}, {asked.unit}"


def row(asked: Figures, kind: Kind, figures: Mapping[str, Figures]) -> list[str]:
    marks = "; ".join(asked.judged(kind, figures)) or "–"
    return [
        title(asked),
        kind.database,
        marks,
        shown(asked, kind),
        "; ".join(peers(asked, kind)) or "–",
        rivals(asked, kind, "limit"),
        asked.beside(kind, "peer"),
        asked.beside(kind, "limit"),
    ]


def peers(asked: Figures, kind: Kind) -> list[str]:
    """Return the best peer that keeps its jobs, and a better one that does not."""
    found = [asked.rival(kind, "peer"), asked.rival(kind, "peer", durable=False)]
    return [f"{shown(asked, one)} ({short_name(one)})" for one in found if one]


def rivals(asked: Figures, kind: Kind, role: Role) -> str:
    other = asked.rival(kind, role)
    return shown(asked, other) if other else "–"


def shown(asked: Figures, kind: Kind) -> str:
    """The median, with a ~ where the rounds differed much."""
    noisy = (asked.noise(kind) or 0) > NOISY
    return f"{'~' if noisy else ''}{median(asked.answers[kind]):,.{asked.digits}f}"


def sections(figures: Mapping[str, Figures], keys: Sequence[str]) -> dict[str, list[Bar]]:
    found: dict[str, list[Bar]] = {}
    for key in keys:
        asked = figures[key]
        tails = figures["latency p99"].answers if key == "latency p50" else {}
        for kind, answers in asked.answers.items():
            heading = asked.title if key != "latency p50" else "enqueue to start, p50 and p99, ms"
            value, tail = median(answers), median(tails.get(kind, [0]))
            said = shown(asked, kind) + (f" / {tail:.2f}" if tail else "")
            bar = Bar(short_name(kind), kind.role, value, said, tail)
            found.setdefault(f"{heading}, {kind.database}", []).append(bar)
    return found

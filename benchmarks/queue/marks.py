"""What duly is to reach, judged from the figures of the run."""

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median

from benchmarks.queue.report import Figures

POSTGRES, SQLITE = "duly, PostgreSQL", "duly, SQLite"
RAW = {POSTGRES: "raw SQL, PostgreSQL", SQLITE: "raw SQL, SQLite"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """A figure of ours, alone or over another one, and its bound."""

    ours: str
    figure: str
    over: tuple[str, str] | None = None  # the name and the figure it is divided by
    at_least: float | None = None
    at_most: float | None = None

    def show(self, figures: Mapping[str, Figures]) -> None:
        reached = self.reached(figures)
        bound = f"≥ {self.at_least:,g}" if self.at_least else f"≤ {self.at_most:,g}"
        over = " / ".join(self.over) if self.over else ""
        what = f"{self.ours}: {self.figure}{over and f', over {over}'}"
        if reached is None:
            print(f"  ?    {what}: {bound}, not measured")
            return
        good = reached >= self.at_least if self.at_least else reached <= (self.at_most or 0)
        print(f"  {'yes' if good else 'NO':5}{what}: {reached:,.2f}, to be {bound}")

    def reached(self, figures: Mapping[str, Figures]) -> float | None:
        mine = self._answers(figures, self.ours, self.figure)
        if not self.over:
            return median(mine) if mine else None
        both = list(zip(mine, self._answers(figures, *self.over), strict=False))
        return median(one / other for one, other in both if other) if both else None

    @staticmethod
    def _answers(figures: Mapping[str, Figures], name: str, figure: str) -> list[float]:
        return figures[figure].of(name) if figure in figures else []


def show_marks(figures: Mapping[str, Figures]) -> None:
    """Every mark, also those that nothing was measured for: they are not forgotten."""
    print("\nmarks\n")
    for mark in MARKS:
        mark.show(figures)


def both(
    figure: str, over: str | None = None, *, least: float | None = None, most: float | None = None
) -> list[Mark]:
    """The same mark on both databases, alone or over another figure of ours."""
    return [
        Mark(
            ours=ours,
            figure=figure,
            over=(ours, over) if over else None,
            at_least=least,
            at_most=most,
        )
        for ours in (POSTGRES, SQLITE)
    ]


MARKS = (
    Mark(ours=POSTGRES, figure="drain 1", over=("pgqueuer", "drain 1"), at_least=2),
    Mark(ours=POSTGRES, figure="drain 1", over=(RAW[POSTGRES], "drain 1"), at_least=0.5),
    Mark(ours=POSTGRES, figure="drain 2", over=(POSTGRES, "drain 1"), at_least=1.6),
    Mark(ours=SQLITE, figure="drain 1", over=("Huey, full", "drain 1"), at_least=5),
    Mark(ours=SQLITE, figure="drain 1", over=("Huey, normal", "drain 1"), at_least=2),
    *(
        Mark(ours=ours, figure="enqueue", over=(raw, "enqueue"), at_least=0.85)
        for ours, raw in RAW.items()
    ),
    *both("enqueue by 32", "enqueue", least=5),
    Mark(ours=POSTGRES, figure="enqueue in bulk", at_least=100_000),
    Mark(ours=SQLITE, figure="enqueue in bulk", at_least=150_000),
    *both("latency p50", most=2),
    Mark(ours=POSTGRES, figure="latency p99", at_most=4),
    Mark(ours=SQLITE, figure="latency p99", at_most=6),
    *both("idle memory", most=45),
    *both("idle CPU", most=0.5),
    *both("first job", most=0.4),
    *both("drain, old", "drain, new", least=0.9),
    *both("churn, last", "churn, first", least=0.8),
)

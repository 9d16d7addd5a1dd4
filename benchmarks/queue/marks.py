"""What duly is to reach, judged from the figures of the run."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from benchmarks.queue.report import Figures


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


def show_marks(figures: Mapping[str, Figures], servers: Sequence[str]) -> None:
    """Every mark, also those that nothing was measured for: they are not forgotten."""
    print("\nmarks\n")
    for mark in [*(mark for server in servers for mark in on_postgres(server)), *on_sqlite()]:
        mark.show(figures)


def on_postgres(server: str) -> list[Mark]:
    ours = f"duly, {server}"
    peer, raw = f"pgqueuer, {server}", f"raw SQL, {server}"
    return [
        Mark(ours=ours, figure="drain 1", over=(peer, "drain 1"), at_least=2),
        Mark(ours=ours, figure="drain 1", over=(raw, "drain 1"), at_least=0.5),
        Mark(ours=ours, figure="drain 2", over=(ours, "drain 1"), at_least=1.5),
        Mark(ours=ours, figure="enqueue", over=(raw, "enqueue"), at_least=0.85),
        Mark(ours=ours, figure="enqueue in bulk", at_least=100_000),
        Mark(ours=ours, figure="latency p99", at_most=4),
        *on_each(ours),
    ]


def on_sqlite() -> list[Mark]:
    ours, raw = "duly, SQLite", "raw SQL, SQLite"
    return [
        Mark(ours=ours, figure="drain 1", over=("Huey, full, SQLite", "drain 1"), at_least=10),
        Mark(ours=ours, figure="drain 1", over=(raw, "drain 1"), at_least=0.35),
        Mark(ours=ours, figure="enqueue", over=(raw, "enqueue"), at_least=0.85),
        Mark(ours=ours, figure="enqueue in bulk", at_least=150_000),
        Mark(ours=ours, figure="latency p99", at_most=6),
        *on_each(ours),
    ]


def on_each(ours: str) -> list[Mark]:
    return [
        Mark(ours=ours, figure="enqueue by 32", over=(ours, "enqueue"), at_least=5),
        Mark(ours=ours, figure="latency p50", at_most=2),
        Mark(ours=ours, figure="idle memory", at_most=45),
        Mark(ours=ours, figure="idle CPU", at_most=0.3),
        Mark(ours=ours, figure="first job", at_most=0.35),
        Mark(ours=ours, figure="drain, old", over=(ours, "drain, new"), at_least=0.9),
        Mark(ours=ours, figure="churn, last", over=(ours, "churn, first"), at_least=0.8),
    ]

"""The figures, each beside the limit and the best peer on the same database in the same run.

Machines are noisy, and a figure alone says little: a ratio is the median of the ratios of the
single rounds, in which the contestants came one after the other.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median

from benchmarks.queue.contestant import Contestant

Kind = type[Contestant]


@dataclass(slots=True)
class Figures:
    """One question, and what each contestant answered in each round."""

    title: str
    unit: str
    more_is_better: bool = True
    digits: int = 0
    answers: dict[Kind, list[float]] = field(default_factory=dict)

    def add(self, kind: Kind, answer: float | None) -> None:
        if answer is not None:
            self.answers.setdefault(kind, []).append(answer)

    def show(self) -> None:
        print(f"\n{self.title}, {self.unit}\n")
        print(f"{'':30}{'median':>12}{'lowest':>12}{'highest':>12}{'× raw':>10}{'× peer':>10}")
        for kind, answers in self.answers.items():
            shown = [f"{each:12,.{self.digits}f}" for each in spread(answers)]
            print(f"{kind.name:30}{''.join(shown)}{self._beside(kind)}")

    def ratio(self, kind: Kind, other: Kind) -> float:
        """How many times the other's answer, round by round."""
        both = zip(self.answers[kind], self.answers[other], strict=False)
        return median(mine / theirs if theirs else float("inf") for mine, theirs in both)

    def of(self, name: str) -> list[float]:
        return next((found for kind, found in self.answers.items() if kind.name == name), [])

    def best(self, kinds: Sequence[Kind]) -> Kind | None:
        choose = max if self.more_is_better else min
        return choose(kinds, key=lambda kind: median(self.answers[kind]), default=None)

    def _beside(self, kind: Kind) -> str:
        """The ratios to those who play another role on the same database."""
        shown = ""
        for role in ("limit", "peer"):
            same = [
                one for one in self.answers if (one.database, one.role) == (kind.database, role)
            ]
            best = None if role == kind.role else self.best(same)
            shown += f"{self.ratio(kind, best):10.2f}" if best else f"{'':10}"
        return shown


def spread(answers: Sequence[float]) -> tuple[float, float, float]:
    return median(answers), min(answers), max(answers)

"""The figures, each beside the limit and the best peer on the same database in the same run.

Machines are noisy, and a figure alone says little: a ratio is the median of the ratios of the
single rounds, in which the contestants came one after the other.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

from benchmarks.queue.contestant import Contestant, Role

Kind = type[Contestant]

NOISY = 0.25  # the spread of the rounds, as a share of the median, from which a row is marked


@dataclass(frozen=True, slots=True)
class Mark:
    """A bound for duly's figure, alone, or over another figure of the same run."""

    bound: float
    over: str = ""  # a contestant on the same database, or the key of another figure of duly's


@dataclass(slots=True)
class Figures:
    """One question, the marks for duly, and what each contestant answered in each round."""

    title: str
    unit: str = "jobs/s"
    less: bool = False  # whether less is better
    digits: int = 0
    postgres: Sequence[Mark] = ()
    sqlite: Sequence[Mark] = ()
    answers: dict[Kind, list[float]] = field(default_factory=dict)

    def add(self, kind: Kind, answer: float | None) -> None:
        if answer is not None:
            self.answers.setdefault(kind, []).append(answer)

    def show(self) -> None:
        print(f"\n{self.title}, {self.unit}\n")
        print(f"{'':30}{'median':>12}{'noise':>10}{'':8}{'× raw':>8}{'× peer':>8}")
        for kind in self.answers:
            middle = f"{median(self.answers[kind]):12,.{self.digits}f}"
            noise = self.noise(kind)
            said = f"{'–':>10}{'':8}" if noise is None else f"{noise:10.0%}{quiet(noise):>8}"
            ratios = [self.beside(kind, role) for role in ("limit", "peer")]
            print(f"{kind.name:30}{middle}{said}{''.join(f'{one:>8}' for one in ratios)}")

    def noise(self, kind: Kind) -> float | None:
        """Return the spread of the rounds as a share of their median; None if there was one."""
        answers = self.answers[kind]
        if len(answers) < 2 or not median(answers):
            return None
        return (max(answers) - min(answers)) / median(answers)

    def ratio(self, kind: Kind, other: Kind) -> float:
        """How many times the other's answer, round by round."""
        return over(self.answers[kind], self.answers[other])

    def rival(self, kind: Kind, role: Role, *, durable: bool = True) -> Kind | None:
        """Return the best contestant of a role on the same database that keeps its jobs, or not."""
        choose = min if self.less else max
        others = [
            one
            for one in self.answers
            if (one.database, one.role, one.durable) == (kind.database, role, durable)
        ]
        return choose(others, key=lambda one: median(self.answers[one]), default=None)

    def beside(self, kind: Kind, role: Role) -> str:
        other = None if role == kind.role else self.rival(kind, role)
        return f"{self.ratio(kind, other):.2f}" if other and all(self.answers[other]) else "–"

    def judged(self, kind: Kind, all_figures: "Mapping[str, Figures]") -> Iterator[str]:
        """Say for each mark of a database whether duly has reached it."""
        for mark in self.sqlite if kind.database == "SQLite" else self.postgres:
            reached = self._reached(kind, mark, all_figures)
            sign = "≤" if self.less else "≥"
            other = all_figures[mark.over].title if mark.over in all_figures else mark.over
            said = f"{sign} {mark.bound:,g}{f' × {other}' if other else ''}"
            if reached is None:
                yield f"{said}: not measured"
                continue
            good = reached <= mark.bound if self.less else reached >= mark.bound
            figure = f"{reached:.2f}" if reached < 100 else f"{reached:,.0f}"
            yield f"{said}: {'reached' if good else '**missed**'} ({figure})"

    def _reached(
        self, kind: Kind, mark: Mark, all_figures: "Mapping[str, Figures]"
    ) -> float | None:
        if not mark.over:
            return median(self.answers[kind])
        if mark.over in all_figures:
            other = all_figures[mark.over].answers.get(kind, [])
        else:
            names = {one.name: answers for one, answers in self.answers.items()}
            other = names.get(f"{mark.over}, {kind.database}", [])
        return over(self.answers[kind], other) if other else None


def over(mine: Sequence[float], theirs: Sequence[float]) -> float:
    both = zip(mine, theirs, strict=False)
    return median(one / other for one, other in both)


def quiet(noise: float) -> str:
    return "noisy" if noise > NOISY else "quiet"


def show_marks(figures: Mapping[str, Figures]) -> None:
    """Every mark, also those that nothing was measured for: they are not forgotten."""
    print("\nmarks\n")
    for asked in figures.values():
        ours = [kind for kind in asked.answers if kind.role == "duly"]
        for kind in ours:
            for said in asked.judged(kind, figures):
                print(f"  {asked.title}, {kind.database}: {said.replace('**', '')}")
        if not ours and (asked.postgres or asked.sqlite):
            print(f"  {asked.title}: not measured")

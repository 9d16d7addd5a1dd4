"""``python -m tests.simulation``: play stories, and say which of them ended badly."""

import os
import sys
import time
from collections import Counter

import click

from tests.simulation.counts import SOMETIMES
from tests.simulation.story import MINUTES, Ending, play

LINE = 300  # characters of a step that are shown
BARS = 20


@click.command()
@click.option("--seeds", default=100, show_default=True, help="How many stories to play.")
@click.option("--seed", type=int, help="Play this one, or begin with it.")
@click.option("--minutes", default=MINUTES, show_default=True, help="Of chaos, in each story.")
def main(seeds: int, seed: int | None, minutes: float) -> None:
    """Play stories of a simulated world. One that ends badly can be played again by its seed."""
    first = int.from_bytes(os.urandom(4), "big") if seed is None else seed
    numbers = range(first, first + (seeds if seed is None else 1))
    click.echo(f"{len(numbers)} stories, the first with seed {first}, {minutes:g} minutes of chaos")
    sometimes: Counter[str] = Counter()
    began, lived, failed = time.perf_counter(), 0.0, []
    for played, number in enumerate(numbers, 1):
        ending = play(number, minutes=minutes)
        sometimes += ending.sometimes
        lived += ending.seconds
        if ending.wrong:
            failed.append(number)
            click.echo(told(ending, minutes))
        if played % max(1, len(numbers) // BARS) == 0:
            click.echo(f"  {played} played, {len(failed)} ended badly")
    gone = time.perf_counter() - began
    click.echo(summary(len(numbers), failed, hours=lived / 3600, seconds=gone, sometimes=sometimes))
    sys.exit(bool(failed))


def told(ending: Ending, minutes: float) -> str:
    """A story that ended badly: what was broken, what came before, and how to see it again."""
    steps = [f"    {step[:LINE]}" for step in ending.steps]
    wrong = [f"  {promise}" for promise in ending.wrong]
    again = f"python -m tests.simulation --seed {ending.seed} --minutes {minutes:g}"
    return "\n".join([f"seed {ending.seed}:", *steps, *wrong, f"  again: {again}"])


def summary(
    seeds: int, failed: list[int], *, hours: float, seconds: float, sometimes: Counter[str]
) -> str:
    counted = ", ".join(f"{name} {sometimes[name]:,}" for name in SOMETIMES)
    return (
        f"{seeds} seeds, {len(failed)} ended badly {failed or ''}\n"
        f"{hours:.2f} virtual hours, {hours / seconds:.3f} of them in a second\n"
        f"{counted}"
    )


if __name__ == "__main__":
    main()

"""Small words for sentences: lists, ordinals, runs of numbers."""

from collections.abc import Callable, Iterable, Sequence

WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)


def listed(words: Sequence[str]) -> str:
    """``a``, ``a and b``, ``a, b and c``."""
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def ranges(numbers: Iterable[int], name: Callable[[int], str], to: str) -> list[str]:
    """Numbers by name, three or more in a row by their ends: ``1st``, ``5th to 9th``, ``12th``."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and runs[-1][-1] == number - 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    words: list[str] = []
    for run in runs:
        if len(run) > 2:
            words.append(f"{name(run[0])}{to}{name(run[-1])}")
        else:
            words.extend(map(name, run))
    return words


def runs(numbers: Iterable[int], name: Callable[[int], str]) -> str:
    return listed(ranges(numbers, name, " to "))


def ordinal(number: int) -> str:
    if number % 100 in (11, 12, 13):
        return f"{number}th"
    return f"{number}{ {1: 'st', 2: 'nd', 3: 'rd'}.get(number % 10, 'th') }"


def plural(count: int, noun: str) -> str:
    """``hour``, ``2 hours``: for use after "every"."""
    return noun if count == 1 else f"{count} {noun}s"

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


def runs(
    numbers: Iterable[int], name: Callable[[int], str], *, shortest: int = 3, to: str = " to "
) -> str:
    """Numbers as a list in which a run is said by its ends: ``1st, 5th to 9th and 12th``."""
    found: list[list[int]] = []
    for number in numbers:
        if found and found[-1][-1] == number - 1:
            found[-1].append(number)
        else:
            found.append([number])
    words: list[str] = []
    for run in found:
        if len(run) >= shortest:
            words.append(f"{name(run[0])}{to}{name(run[-1])}")
        else:
            words.extend(map(name, run))
    return listed(words)


def ordinal(number: int) -> str:
    if number % 100 in (11, 12, 13):
        return f"{number}th"
    return f"{number}{ {1: 'st', 2: 'nd', 3: 'rd'}.get(number % 10, 'th') }"


def plural(count: int, noun: str) -> str:
    """``hour``, ``2 hours``: for use after "every"."""
    return noun if count == 1 else f"{count} {noun}s"

"""Sets of small numbers as the bits of one integer.

A year is 366 bits, a day 1440, a cron field at most 60. Finding the next member, the previous
member, or the number of smaller members costs a shift and a bit count.
"""

from collections.abc import Iterable, Iterator


def pack(members: Iterable[int]) -> int:
    bits = 0
    for member in members:
        bits |= 1 << member
    return bits


def members(bits: int) -> Iterator[int]:
    while bits:
        yield (bits & -bits).bit_length() - 1
        bits &= bits - 1


def lowest(bits: int, start: int = 0) -> int:
    """Return the smallest member at or above ``start``, or -1."""
    rest = bits >> start
    return start + (rest & -rest).bit_length() - 1 if rest else -1


def highest(bits: int, end: int) -> int:
    """Return the largest member at or below ``end``, or -1."""
    return (bits & ((2 << end) - 1)).bit_length() - 1


def count_below(bits: int, end: int) -> int:
    return (bits & ((1 << end) - 1)).bit_count()


def full(low: int, high: int) -> int:
    """Return the set of all numbers from ``low`` to ``high``."""
    return (2 << high) - (1 << low)

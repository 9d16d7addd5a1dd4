"""``make bench``: every benchmark, or those that are named.

A benchmark compares with something else in the same run and prints the ratio, because machines are
noisy and a figure alone says little.
"""

import sys
from collections.abc import Callable

from benchmarks import rules, schedules

BENCHMARKS: dict[str, Callable[[], None]] = {
    "rules": rules.main,
    "schedules": schedules.main,
}


def main() -> None:
    for name in sys.argv[1:] or BENCHMARKS:
        if name not in BENCHMARKS:
            sys.exit(f'"{name}" is not a benchmark; there are: {", ".join(BENCHMARKS)}')
        BENCHMARKS[name]()


main()

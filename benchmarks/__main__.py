"""``make bench``: every benchmark, or those that are named, one of them with options of its own.

A benchmark compares with something else in the same run and prints the ratio, because machines are
noisy and a figure alone says little.
"""

import sys
from collections.abc import Callable
from itertools import takewhile

from benchmarks import delayed, flows, listing, rules, schedules, streams
from benchmarks.queue import main as queue

BENCHMARKS: dict[str, Callable[..., None]] = {
    "rules": rules.main,
    "schedules": schedules.main,
    "listing": listing.main,
    "streams": streams.main,
    "flows": flows.main,
    "delayed": delayed.main,
    "queue": queue.main,
}


def main() -> None:
    names = list(takewhile(lambda word: not word.startswith("-"), sys.argv[1:]))
    options = sys.argv[1 + len(names) :]
    for name in names:
        if name not in BENCHMARKS:
            sys.exit(f'"{name}" is not a benchmark; there are: {", ".join(BENCHMARKS)}')
    if options and names not in (["queue"], ["delayed"]):
        sys.exit(f"{options[0]} is an option of queue or delayed: make bench ARGS='queue --help'")
    for name in names or BENCHMARKS:
        BENCHMARKS[name](*([options] if options else []))


main()

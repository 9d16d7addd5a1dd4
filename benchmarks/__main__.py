"""``make bench``: duly beside its peers, or the benchmarks that are named.

A benchmark compares with something else in the same run and prints the ratio, because machines are
noisy and a figure alone says little.
"""

import sys
from collections.abc import Callable
from itertools import takewhile

from benchmarks import delayed, flows, growth, listing, rules, schedules, streams
from benchmarks.queue import main as queue

WITH_OPTIONS: dict[str, Callable[..., None]] = {
    "queue": queue.main,  # alone: the comparison with peers
    "growth": growth.main,
    "delayed": delayed.main,
}
OTHERS: dict[str, Callable[[], None]] = {
    "schedules": schedules.main,
    "flows": flows.main,
    "listing": listing.main,
    "streams": streams.main,
    "rules": rules.main,
}


def main() -> None:
    words = sys.argv[1:]
    given = list(takewhile(lambda word: not word.startswith("-"), words))
    names, options = given or ["queue"], words[len(given) :]
    for name in names:
        if name not in {**WITH_OPTIONS, **OTHERS}:
            known = ", ".join([*WITH_OPTIONS, *OTHERS])
            sys.exit(f'"{name}" is not a benchmark; there are: {known}')
    if options and (len(names) > 1 or names[0] in OTHERS):
        sys.exit(f"{options[0]}: options are for one of {', '.join(WITH_OPTIONS)}")
    for name in names:
        if name in WITH_OPTIONS:
            WITH_OPTIONS[name](options)
        else:
            OTHERS[name]()


if __name__ == "__main__":
    main()

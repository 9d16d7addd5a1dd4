"""A node with a worker as a process of its own: ``python -m benchmarks.node STORE``."""

import sys

from duly import Duly

duly = Duly(sys.argv[1])


@duly.task
async def nothing() -> None:
    """Run for a schedule; what is measured is all the rest."""


if __name__ == "__main__":
    duly.run()

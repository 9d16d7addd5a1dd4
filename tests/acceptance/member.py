"""A node as a process of its own, with everything in it: scheduler, worker, and whoever minds them.

    python -m tests.acceptance.member STORE FILE [--number N] [--lease SECONDS] [--slots N]

Its jobs bear witness in the file. What should never happen at all is written into one beside it.
"""

import argparse
import asyncio
import os
import signal
import sys
from datetime import timedelta

from duly.app import Node
from duly.clock import now
from duly.errors import StoreUnavailable
from duly.events import Event, SettlementFailed, TickFailed, TickStalled, WriteRefused
from duly.runtime.workers import WorkerOptions, make_worker
from tests.acceptance import tasks
from tests.acceptance.opening import opened


async def main(url: str, *, lease: float, slots: int) -> None:
    store = await opened(url)
    stop, hurry = asyncio.Event(), asyncio.Event()

    def told() -> None:
        (hurry if stop.is_set() else stop).set()

    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, told)
    length = timedelta(seconds=lease)
    worker = make_worker(
        store,
        tasks.registry,
        WorkerOptions(concurrency=slots, lease=length, dedicated=True, children=2),
        url=url,
        target=tasks.__file__,
        on_stop=told,
        emit=tell,
    )
    await Node(store, worker=worker, emit=tell).run(stop, hurry)
    await store.close()


def tell(event: Event) -> None:
    match event:
        case WriteRefused():
            tasks.write("refused", job=event.job, fence=event.fence)
        case TickFailed(error=StoreUnavailable()):
            pass
        case TickFailed() | TickStalled() | SettlementFailed():
            tasks.append(".trouble", f"{event}")
        case _:
            pass
    if os.environ.get("DULY_TELL"):
        sys.stderr.write(f"{now():%T.%f} {os.getpid()} {event}\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("store")
    parser.add_argument("file")
    parser.add_argument("--number", default="0")
    parser.add_argument("--lease", type=float, default=15.0)
    parser.add_argument("--slots", type=int, default=10)
    asked = parser.parse_args()
    # For the children, too.
    os.environ["DULY_WITNESS"], os.environ["DULY_MEMBER"] = asked.file, asked.number
    asyncio.run(main(asked.store, lease=asked.lease, slots=asked.slots))

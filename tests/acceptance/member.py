"""A node as a process of its own, with everything in it: scheduler, worker, and whoever minds them.

    python -m tests.acceptance.member STORE FILE [--number N] [--lease SECONDS] [--slots N]
        [--clock FILE] [--keep SECONDS] [--asks]

Its jobs bear witness in the file. What should never happen at all is written into one beside it.
``--clock`` names a file with the seconds by which its clock is wrong, as eight bytes; ``--keep`` is
how long it keeps history. With ``--asks``, it asks for jobs, too, and tells which were promised.
"""

import argparse
import asyncio
import mmap
import os
import signal
import struct
import sys
from datetime import datetime, timedelta, tzinfo
from pathlib import Path
from typing import Self

from duly import clock
from duly.app import Node
from duly.clock import now, sleep
from duly.engine.worker import WorkerOptions
from duly.errors import StoreUnavailable
from duly.events import EngineEvent, SettlementFailed, TickFailed, TickStalled, WriteRefused
from duly.model.job import JobRequest
from duly.runtime.node import make_worker
from duly.store.maintenance import Retention
from duly.store.store import Store
from tests.acceptance import tasks
from tests.acceptance.opening import opened


async def main(asked: argparse.Namespace) -> None:
    url = asked.store
    store = await opened(url)
    asking = asyncio.create_task(ask(store)) if asked.asks else None
    stop, hurry = asyncio.Event(), asyncio.Event()

    def told() -> None:
        (hurry if stop.is_set() else stop).set()

    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, told)
    length, keep = timedelta(seconds=asked.lease), timedelta(seconds=asked.keep)
    worker = make_worker(
        store,
        tasks.registry,
        WorkerOptions(concurrency=asked.slots, lease=length, dedicated=True, children=2),
        url=url,
        target=tasks.__file__,
        on_stop=told,
        emit=tell,
    )
    kept = Retention(history=keep, fires=keep, failed=keep) if keep else None
    await Node(store, worker=worker, emit=tell, retention=kept).run(stop, hurry)
    if asking:
        asking.cancel()
    await store.close()


async def ask(store: Store) -> None:
    """Ask for one job after the other; a store that does not answer is trouble."""
    while True:
        try:
            [number] = await store.jobs.enqueue([JobRequest(task="quick")])
        except StoreUnavailable as error:
            tasks.append(".trouble", f"asked in vain: {error}")
            await sleep(0.1)
        else:
            tasks.write("promised", job=number, fence=0)


def falsify(file: str) -> None:
    """Let this process's clock be wrong by the seconds that the file says from now on."""
    with Path(file).open("rb") as opened_:
        wrong = mmap.mmap(opened_.fileno(), 8, access=mmap.ACCESS_READ)

    class Falsified(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> Self:
            (seconds,) = struct.unpack("d", wrong[:8])
            return super().now(tz) + timedelta(seconds=seconds)

    vars(clock)["datetime"] = Falsified


def tell(event: EngineEvent) -> None:
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
    parser.add_argument("--clock")
    parser.add_argument("--keep", type=float, default=0)
    parser.add_argument("--asks", action="store_true")
    asked = parser.parse_args()
    if asked.clock:
        falsify(asked.clock)
    # For the children, too.
    os.environ["DULY_WITNESS"], os.environ["DULY_MEMBER"] = asked.file, asked.number
    asyncio.run(main(asked))

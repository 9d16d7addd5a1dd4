"""A scheduler of your own: a store, a node, and an orderly end.

    duly db migrate --store jobs.db
    python examples/node.py jobs.db

It runs until SIGTERM or Ctrl-C. Start as many as you like, on as many machines as reach the store.
With ``--seconds 3`` it ends by itself.
"""

import argparse
import asyncio
import signal

from duly.app import Node, open_store
from duly.events import EngineEvent


async def main(url: str, seconds: float | None) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    if seconds is not None:
        loop.call_later(seconds, stop.set)
    store = await open_store(url)  # which is there, and has been migrated
    try:
        node = Node(store, emit=tell)
        await node.run(stop)
        health = await node.health()
        print("healthy" if health.ok else health.problem)
    finally:
        await store.close()


def tell(event: EngineEvent) -> None:
    print(event)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("store")
    parser.add_argument("--seconds", type=float)
    asked = parser.parse_args()
    asyncio.run(main(asked.store, asked.seconds))

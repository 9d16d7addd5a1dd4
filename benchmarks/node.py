"""A node as a process of its own: ``python -m benchmarks.node STORE``."""

import asyncio
import sys

from duly.app import Node, open_store


async def main(url: str) -> None:
    await Node(await open_store(url)).run()


asyncio.run(main(sys.argv[1]))

"""``python -m tests.app.steering STORE WHO``: somebody who steers until they are killed."""

import asyncio
import sys
from itertools import cycle

from duly.app import open_store
from duly.model.access import Actor
from duly.model.limit import Queue


async def steer(url: str, who: str) -> None:
    """Pause and resume one's own schedule and everybody's queue; say each time that it is done."""
    store = (await open_store(url)).acting(Actor(who, "program"))
    for word in cycle(("pause", "resume")):
        await getattr(store.schedules, word)(who)
        print("done", flush=True)  # noqa: T201 - to whoever has started us
        await store.work.set_queue(Queue(name="mail", paused=word == "pause"))


if __name__ == "__main__":
    asyncio.run(steer(*sys.argv[1:]))

"""A client as a process of its own: asks for one job for each idempotency key, in order.

    python -m tests.acceptance.client STORE FILE --keys COUNT [--join] [--number N]

It writes into the file which number each key was answered with. With ``--join``, it begins where
the others are.
"""

import argparse
import asyncio
import os
from pathlib import Path

from duly.errors import StoreUnavailable
from duly.model.job import JobRequest
from tests.acceptance import tasks
from tests.acceptance.opening import opened


async def main(url: str, key: int, keys: int) -> None:
    store = await opened(url)
    while key <= keys:
        try:
            [number] = await store.jobs.enqueue_once(
                [JobRequest(task="quick", title=str(key))], key=f"key {key}", mark="same"
            )
        except StoreUnavailable as error:  # and once more, with the same key
            tasks.append(".trouble", f"asked in vain: {error}")
        else:
            tasks.write("promised", job=number, fence=0, schedule=key)
            key += 1
    await store.close()


def newest(file: Path) -> int:
    """Return the last key that was answered, or the first one."""
    lines = [line.split() for line in tasks.whole_lines(file)]
    return max((int(words[1]) for words in lines if words[0] == "promised"), default=1)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("store")
    parser.add_argument("file")
    parser.add_argument("--keys", type=int, default=1)
    parser.add_argument("--join", action="store_true")
    parser.add_argument("--number", default="0")
    asked, _ = parser.parse_known_args()
    os.environ["DULY_WITNESS"], os.environ["DULY_MEMBER"] = asked.file, f"-{asked.number}"
    begin = newest(Path(asked.file)) if asked.join else 1
    asyncio.run(main(asked.store, begin, asked.keys))

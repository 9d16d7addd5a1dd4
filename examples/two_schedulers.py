"""Two schedulers share one file, and one of them is killed. Every second is in the ledger once.

    python examples/two_schedulers.py

It starts two processes on a new SQLite store, kills one with SIGKILL after three seconds, the other
after six, and then fires once more itself: what was due meanwhile is made up for.
"""

import asyncio
import contextlib
import subprocess
import sys
import tempfile
from pathlib import Path

from duly.app import Node, migrate_store, open_store
from duly.clock import sleep
from duly.model.policies import Missed, Policies
from duly.model.schedule import Plan
from duly.policy.firing import decide
from duly.store.store import Store

TICK = Plan(
    name="tick",
    rule="every 1s",
    task="tick",
    policies=Policies(overlap="allow", missed=Missed("all")),
)


async def main(url: str) -> None:
    await migrate_store(url)
    store = await open_store(url)
    await store.schedules.add([TICK])
    first, second = start(url), start(url)
    await sleep(3)
    first.kill()
    print("killed the first scheduler; the second goes on")
    await sleep(3)
    second.kill()
    print("killed the second scheduler; no scheduler runs for two seconds")
    await sleep(2)
    firing = await store.ledger.foresee("tick", decide)
    print(f"the next scheduler will catch up {len(firing.jobs)} runs")
    await store.ledger.fire(decide, limit=10, trust=lambda _: True)
    await tell(store)
    await store.close()
    first.wait()
    second.wait()


def start(url: str) -> "subprocess.Popen[bytes]":
    return subprocess.Popen([sys.executable, __file__, url])


async def tell(store: Store) -> None:
    fires = (await store.ledger.fires("tick"))[::-1]
    for fire in fires:
        print(f"{fire.due_at:%H:%M:%S}  {fire.outcome}  job {fire.job_id}  {fire.reason}")
    moments = [fire.due_at for fire in fires]
    assert len(set(moments)) == len(moments), "a moment is there twice"
    span = (moments[-1] - moments[0]).total_seconds()
    assert len(moments) == span + 1, "a moment is missing"
    print(f"{len(moments)} seconds, each once: nothing lost, nothing doubled")


async def be_a_node(url: str) -> None:
    await Node(await open_store(url)).run()


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        if len(sys.argv) > 1:
            asyncio.run(be_a_node(sys.argv[1]))
        else:
            with tempfile.TemporaryDirectory() as folder:
                asyncio.run(main(str(Path(folder) / "duly.db")))

"""A node as a process of its own: the real services, and a witness instead of a worker.

    python -m tests.acceptance.node STORE FILE

The witness claims jobs like any worker, and for each appends a line to a file outside the system,
by one write that a kill can prevent but not tear. Then it settles the job. So the file says what
really happened, and can be held against what the ledger says.
"""

import asyncio
import os
import sys
from dataclasses import replace
from datetime import timedelta

from duly.app import Node
from duly.clock import Timeout, sleep
from duly.errors import StoreUnavailable
from duly.model.job import Claimed
from duly.model.states import Move
from duly.model.worker import Profile
from duly.policy.verdict import Verdict
from duly.store.store import Store
from duly.store.values import CLOCK, SUSPECT, ClaimRequest, Settlement
from tests.acceptance.opening import opened

TASK = "witness"
LEASE = timedelta(seconds=3)


async def main(url: str, file: str) -> None:
    store = await opened(url)
    witness = os.open(file, os.O_WRONLY | os.O_APPEND)
    async with asyncio.TaskGroup() as group:
        group.create_task(Node(store).run())
        group.create_task(bear_witness(store, witness))


async def bear_witness(store: Store, file: int) -> None:
    woken = asyncio.Event()
    store.listen(lambda topic: woken.set() if topic.startswith(("ready", "*")) else None)
    while True:
        try:
            await be_a_worker(store, file, woken)
        except StoreUnavailable:
            await sleep(0.1)


async def be_a_worker(store: Store, file: int, woken: asyncio.Event) -> None:
    name = f"process {os.getpid()}"
    profile = Profile(name=name, queues=("default",), signatures={TASK: ""})
    worker = await store.work.register(profile, lease=LEASE)
    request = ClaimRequest(worker=worker.id, queue="default", tasks=[TASK], limit=100)
    while await store.work.renew(worker.id, LEASE):
        woken.clear()
        jobs = (await store.work.finish_and_claim([], replace(request, shelf=CLOCK))).jobs
        jobs = jobs or (await store.work.finish_and_claim([], request)).jobs
        # What was lost with another one lies elsewhere.
        jobs = jobs or (await store.work.claim(replace(request, shelf=SUSPECT))).jobs
        if not jobs:
            await rest(woken)
            continue
        for job in jobs:
            os.write(file, line(job))
        await store.work.settle([done(job) for job in jobs])


async def rest(woken: asyncio.Event) -> None:
    try:
        async with Timeout(0.5):
            await woken.wait()
    except TimeoutError:
        pass


def line(job: Claimed) -> bytes:
    return f"{job.schedule_id} {job.due_at} {job.id} {job.fire_id}\n".encode()


def done(job: Claimed) -> Settlement:
    verdict = Verdict(move=Move.SUCCEED, reason="witnessed", crashes=0)
    return Settlement(job=job, verdict=verdict, outcome="succeeded")


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))

"""No limit is ever exceeded, as the store tells and as those who ran do; also while nodes die."""

import asyncio
import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from duly.clock import boottime, sleep
from duly.model.job import JobRequest
from duly.model.limit import Queue
from duly.model.states import State
from duly.store.store import Store
from tests.acceptance.fleet import Fleet, Span, calls, common, fleet, idle, until
from tests.acceptance.report import Report
from tests.acceptance.stories.kills import kill_one
from tests.acceptance.tasks import MOST_OF_A_KEY, PER_KEY

IN_QUEUE = 7
JOB = 0.2
EVERY = 0.1


async def limits_are_kept(
    url: str, folder: Path, *, seconds: float = 60.0, pause: float = 3.0
) -> Report:
    """Two at once for each of five keys, seven at once in the queue; a node is killed now and then.

    Nearly all work is for the first key: it must keep nobody from the others.
    """
    report = Report()
    async with fleet(url, folder, nodes=3) as (there, store):
        await store.work.set_queue(Queue(name="default", concurrency=IN_QUEUE))
        wanted = [random.choice("aaaabcde") for _ in range(int(seconds / JOB * 3))]
        numbers = await store.jobs.enqueue([_limited(key) for key in wanted])
        keys = dict(zip(numbers, wanted, strict=True))
        samples = Samples(store, keys)
        async with samples:
            await _storm(there, store, seconds=seconds, pause=pause)
            await until(lambda: idle(store), seconds=4 * seconds + 60)
        succeeded = await store.jobs.ended(State.SUCCEEDED, limit=len(numbers))
        report.say(f"{len(succeeded)} of {len(numbers)} done, {there.started - 3} kills")
        report.say(f"{samples.taken} samples, {len(samples.exceeded)} above a limit")
        report.must(len(succeeded) == len(numbers), "lost or failed")
        report.must(samples.taken > seconds, f"only {samples.taken} samples")
        report.must(not samples.exceeded, f"exceeded: {samples.exceeded[:3]}")
        _judge_witnesses(there, keys, report=report)
        return common(there, report)


def _judge_witnesses(there: Fleet, keys: dict[int, str], *, report: Report) -> None:
    spans = there.spans()
    by_key = defaultdict[str, list[Span]](list)
    for span in spans:
        by_key[keys[span.job]].append(span)
    together = {key: at_once(found) for key, found in sorted(by_key.items())}
    report.say(f"at once: {at_once(spans)} in all, {max(together.values())} of a key")
    report.must(at_once(spans) <= IN_QUEUE, f"{at_once(spans)} ran in the queue at once")
    crowds = [crowd(by_key[key]) for key, most in together.items() if most > MOST_OF_A_KEY]
    report.must(not crowds, f"of a key ran at once: {together}, {crowds}")
    report.must(max(together.values()) == MOST_OF_A_KEY, f"no key was used fully: {together}")


def at_once(spans: Iterable[Span]) -> int:
    """How many there were at the most crowded moment."""
    changes = sorted(
        change for span in spans for change in ((span.begin, 1), (span.end, -1))
    )  # at one moment, whoever leaves makes room for who comes
    most = count = 0
    for _, change in changes:
        count += change
        most = max(most, count)
    return most


def crowd(spans: Sequence[Span]) -> list[Span]:
    """Who was there at the most crowded moment."""
    there = [[other for other in spans if other.begin <= one.begin < other.end] for one in spans]
    return max(there, key=len)


class Samples:
    """What the store says about who runs, again and again."""

    def __init__(self, store: Store, keys: dict[int, str]) -> None:
        self._store = store
        self._keys = keys
        self._over = asyncio.Event()
        self.taken = 0
        self.exceeded: list[str] = []

    async def __aenter__(self) -> None:
        self._task = asyncio.create_task(self._take())

    async def __aexit__(self, *_: object) -> None:
        self._over.set()
        await self._task

    async def _take(self) -> None:
        while not self._over.is_set():
            live = await self._store.jobs.page(limit=len(self._keys))
            running = [job.id for job in live if job.state is State.RUNNING]
            of_keys = Counter(self._keys[number] for number in running)
            lanes = {lane.name: lane.running for lane in await self._store.limits.listed()}
            most = max([*of_keys.values(), *lanes.values()], default=0)
            if len(running) > IN_QUEUE or most > MOST_OF_A_KEY:
                self.exceeded.append(f"{len(running)} running, {dict(of_keys)}, {lanes}")
            self.taken += 1
            await sleep(EVERY)


async def _storm(there: Fleet, store: Store, *, seconds: float, pause: float) -> None:
    end = boottime() + seconds
    while boottime() < end and not await idle(store):
        await sleep(min(end - boottime(), random.uniform(0.5, 1.5) * pause))
        await asyncio.to_thread(kill_one, there)


def _limited(key: str) -> JobRequest:
    [call] = calls(1, "limited", key=key, seconds=JOB)
    return replace(call, limits=(PER_KEY.rendered({"key": key}),))

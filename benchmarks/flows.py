"""What flows cost: for each part of a fan-out with a join behind it, and for each step of a chain.

A fan-out is compared with as many plain jobs of the same task, and with one of a tenth of its size:
if a part costs as much in both, nothing in it grows with the number of the others. A chain is
compared with a program that waits for each result and enqueues the next job itself.
"""

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import perf_counter

from duly import Duly, Step

FEW, MANY = 1_000, 10_000
LENGTH = 1_000
LONGEST = "10m"

duly = Duly()


@duly.task
async def count(number: int) -> list[int]:
    return list(range(number))


@duly.task
async def double(item: int) -> int:
    return 2 * item


@duly.task
async def total(found: list[int]) -> int:
    return sum(found)


@duly.flow
def fan(number: int) -> Step[int]:
    return total.step(double.map(count.step(number).result).result)


@duly.flow
def chain() -> Step[int]:
    last = double.step(0)
    for _ in range(LENGTH - 1):
        last = double.step(last.result)
    return last


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        os.environ["DULY_STORE_OF_COMMAND"] = str(Path(folder) / "flows.db")
        with duly.running():
            fan.enqueue(10).result(LONGEST)
            _fans()
            _chains()
        del os.environ["DULY_STORE_OF_COMMAND"]


def _fans() -> None:
    plain = _seconds(_plain)
    few = _seconds(lambda: fan.enqueue(FEW).result(LONGEST))
    many = _seconds(lambda: fan.enqueue(MANY).result(LONGEST))
    print(f"flows: {MANY:,} parts and a join in {many:.2f} s, {many / MANY * 1e6:.0f} µs a part:")
    print(f"  {many / plain:.1f} times as long as {MANY:,} jobs that are enqueued at once,")
    print(f"  {(many / MANY) / (few / FEW):.2f} times as long a part as where there are {FEW:,}")


def _plain() -> None:
    last = duly.enqueue_many(double.bind(n) for n in range(MANY))[-1]
    while duly.jobs.count("task:double state:ready,running,scheduled,blocked"):
        last.refresh()


def _chains() -> None:
    flow = _seconds(lambda: chain.enqueue().result(LONGEST)) / LENGTH
    by_hand = _seconds(_by_hand) / LENGTH
    print(f"flows: a chain of {LENGTH:,} steps, {flow * 1e3:.2f} ms a step:", end=" ")
    print(f"{flow / by_hand:.2f} times as long as to wait for each and enqueue the next by hand")


def _by_hand() -> None:
    value = 0
    for _ in range(LENGTH):
        value = double.enqueue(value).result(LONGEST)


def _seconds(work: Callable[[], object]) -> float:
    began = perf_counter()
    work()
    return perf_counter() - began

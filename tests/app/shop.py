"""An app as a program would have it: what tests enqueue here, workers in other processes run."""

import os
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from duly import Context, Duly, Job
from duly.clock import sleep

duly = Duly()


@dataclass(frozen=True)
class Invoice:
    customer: int
    day: date
    amounts: list[float]


def put_up(sign: str) -> None:
    Path(sign).touch()


def is_up(sign: str) -> bool:
    return Path(sign).exists()


@duly.task
async def add(a: int, b: int = 2) -> int:
    duly.current().log.info("adding %s and %s", a, b)
    return a + b


@duly.task(title="invoice of {customer}")
def bill(customer: int, day: date) -> Invoice:
    return Invoice(customer, day, [1.5, float(customer)])


@duly.task(retry=None)
def fail(text: str) -> int:
    raise ValueError(text)


@duly.task(grace="1s")
async def hold(sign: str) -> str:
    """Say that it runs, and run until it is let go."""
    put_up(f"{sign}.began")
    while not is_up(f"{sign}.go"):
        await sleep(0.02)
    return sign


@duly.task(executor="process")
def pid() -> int:
    return os.getpid()


@duly.task
def order(customer: int) -> int:
    """Promise more work from within a job."""
    return add.enqueue(customer).id


@duly.task(takes_context=True)
def whose(context: Context, word: str) -> str:
    return f"{word} {context.attempt} {context.job.task}"


@duly.task(retry=None, on_failure=add)
def fail_and_tell() -> None:
    raise ValueError("told")


@duly.task(executor="process")
def write_error(job: Job[int]) -> str:
    return f"{(job.error or '').splitlines()[-1]} of {job.args['text']}"


@duly.task(retry=None, on_failure=write_error)
def fail_and_write(text: str) -> int:
    raise ValueError(text)

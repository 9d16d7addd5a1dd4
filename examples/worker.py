"""Tasks, and a program that runs them.

    python examples/worker.py                      a worker, until Ctrl-C
    python examples/worker.py --demo               enqueues some jobs, runs them, and ends

Or with the command, and as many workers as you like:

    duly worker examples/worker.py --processes 4 -v
"""

import os
import sys
from dataclasses import dataclass

from duly import Duly, Limit, Retry

duly = Duly()  # DULY_URL, or ./duly.db


@dataclass
class Receipt:
    customer: int
    total: float


@duly.task(title="charge {customer}", retry=Retry(attempts=5, on=ConnectionError))
async def charge(customer: int, amounts: list[float]) -> Receipt:
    duly.current().log.info("charging %s", customer)
    return Receipt(customer, sum(amounts))


@duly.task(limits=[Limit("mail:{customer}", concurrency=1)])
def remind(customer: int) -> str:
    return f"reminded {customer}"


@duly.task(executor="process", timeout="1m")
def crunch(size: int) -> tuple[int, int]:
    """Runs in a process of its own, which can be stopped whatever it does."""
    return os.getpid(), sum(number * number for number in range(size))


def demo() -> None:
    with duly.running():
        charged = charge.enqueue(7, [12.5, 30.0])
        crunched = crunch.enqueue(100_000)
        reminded = duly.enqueue_many(remind.bind(customer) for customer in range(3))
        print(charged.result("10s"), list(charged.logs()))
        print([job.result("10s") for job in reminded])
        print("here:", os.getpid(), "there:", crunched.result("30s"))


if __name__ == "__main__":
    demo() if "--demo" in sys.argv else duly.run()

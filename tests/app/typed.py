"""What type checkers know of tasks; nothing here runs, and ``make check`` reads it."""

from datetime import date
from typing import assert_type

from duly import Call, Job
from tests.app import shop
from tests.app.shop import Invoice, duly


async def know() -> None:
    assert_type(shop.add.using(run_after="5m", key="k").enqueue(1), Job[int])
    assert_type(await shop.add.aenqueue(1, b=2), Job[int])
    assert_type(shop.add.enqueue(1).result("5s"), int)
    assert_type(shop.add.bind(1), Call[int])
    assert_type(await shop.add(1), int)
    assert_type(shop.fail("text"), int)
    assert_type(shop.bill.enqueue(1, date(2027, 1, 1)).result(), Invoice)
    assert_type(shop.whose.enqueue("word"), Job[str])
    assert_type(duly.enqueue_many([shop.add.bind(1)])[0].result(), int)


def refuse() -> None:
    shop.add.enqueue("one")  # type: ignore[arg-type]
    shop.add.enqueue()  # type: ignore[call-arg]
    shop.add.using(delay="5m")  # type: ignore[call-arg]
    shop.add.using(retry=5)  # type: ignore[arg-type]
    duly.task(timeout=30)  # type: ignore[call-overload]
    duly.task(on_failure=shop.bill)  # type: ignore[arg-type]


@duly.task(name="typed", on_failure=shop.add)
def plain(word: str) -> int:
    return len(word)


@duly.task(name="typed too")
async def awaited(word: str) -> int:
    return len(word)


async def kinds() -> None:
    assert_type(plain("word"), int)
    assert_type(await awaited("word"), int)

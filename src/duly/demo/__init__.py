"""A small shop at work: what a day with duly looks like, in a quarter of a minute.

Run it by ``duly dev --demo``; then ask ``duly status`` and ``duly why rollup``, as it says.
"""

from typing import Any

from duly import Duly, Limit, Retry, Step, current
from duly.clock import sleep

duly = Duly("duly-demo.db", zone="Europe/Berlin")


@duly.schedule("Mon..Fri 02:00", start_within="4h")
@duly.task
def nightly_report() -> str:
    """The night's own report, also if it is made up for at five."""
    return f"the report of {current().due_at:%Y-%m-%d}"


@duly.schedule("*/15 * * * *")
@duly.task(title="Send invoices")
async def invoices() -> int:
    """What a shop does all day."""
    await sleep(1.5)
    return 12


@duly.schedule("every 10m")
@duly.task(title="Fetch stock levels")
async def stock() -> None:
    await sleep(2)


@duly.schedule("every 30m")
@duly.task
async def rollup_eu() -> None:
    await sleep(3)


@duly.schedule("every 2s")
@duly.task
async def heartbeat() -> None:
    """On time, all the time."""


@duly.schedule("every 3s")
@duly.task
async def rollup() -> None:
    """It takes longer than there is time: every other one is skipped, and the ledger says so."""
    await sleep(4)


@duly.task(retry=Retry(attempts=5, backoff=["1s", "2s"]))
async def charge(customer: int) -> str:
    """The bank is moody. What fails is tried again, later."""
    if current().attempt < 2 + customer % 2:
        raise ConnectionError("the bank did not answer")
    return f"charged customer {customer}"


@duly.task(retry=None)
def broken(order: int) -> None:
    """It fails for good, and is kept with everything that is known about it."""
    raise ValueError(f"order {order} has no address")


@duly.on("cart.left", key="cart:{customer}", run_after="30s", unless="cart.paid")
@duly.task(limits=[Limit("mail:{customer}", concurrency=1, rate="2/s")])
async def remind(customer: int) -> None:
    """One cart, one reminder, unless it is paid for; one mail at a time for each customer."""


@duly.task
async def export() -> int:
    """Long work tells how far it is, and what it has done."""
    for page in range(1, 11):
        current().log.info("page %d written, %d rows", page, 120 + page)
        current().progress(page * 10, f"page {page} of 10")
        await sleep(0.6)
    return 10


@duly.task
async def orders() -> list[str]:
    await sleep(1)
    return ["Berlin", "Lisbon", "Oslo", "Turin"]


@duly.task(title="Sum up {city}")
async def sum_up(city: str) -> int:
    await sleep(1 + len(city) / 4)
    return 100 * len(city)


@duly.task
async def exchange_rates() -> float:
    await sleep(2.5)
    return 1.09


@duly.task
async def write_report(sums: list[int], rate: float) -> float:
    await sleep(1.5)
    return sum(sums) * rate


@duly.task
async def tell_everybody() -> None:
    await sleep(0.5)


@duly.schedule("every 45s")
@duly.flow(title="Sales of the day")
def daily_sales() -> Step[float]:
    """A job for each city, and what they come to in one report."""
    sums = sum_up.map(orders.step().result)
    report = write_report.step(sums.result, exchange_rates.step().result)
    report >> tell_everybody.step()
    return report


@duly.task
async def look_into(order: int) -> str:
    return f"order {order} came back"


@duly.task
async def pay_back(order: int, answer: dict[str, Any]) -> None: ...


@duly.flow(title="Refund of order {order}")
def refund(order: int) -> None:
    """Somebody has to say yes: on the page, by the command or over HTTP."""
    approved = duly.wait_for("refund.approved", key="order:{order}", timeout="1h")
    look_into.step(order) >> approved
    pay_back.step(order, approved.result)


@duly.schedule("every 40s")
@duly.task
def open_shop() -> None:
    """What comes in at the door, and who leaves without paying."""
    for customer in (7, 8):
        charge.enqueue(customer)
        duly.emit("cart.left", {"customer": customer})
    broken.enqueue(4711)
    export.enqueue()
    refund.using(key="4711", if_exists="keep").enqueue(4711)

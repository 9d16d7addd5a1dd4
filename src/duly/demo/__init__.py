"""An example shop, for ``duly dev --demo``; try ``duly status`` and ``duly why rollup`` with it."""

from typing import Any

from duly import Duly, Limit, Retry, Step, current
from duly.clock import sleep

duly: Duly = Duly("duly-demo.db", zone="Europe/Berlin")


@duly.schedule("Mon..Fri 02:00", start_within="4h")
@duly.task
def nightly_report() -> str:
    """Uses due_at, so a late run still makes the report of its night."""
    return f"the report of {current().due_at:%Y-%m-%d}"


@duly.schedule("*/15 * * * *")
@duly.task(title="Send invoices")
async def invoices() -> int:
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
    """Runs every two seconds."""


@duly.schedule("every 3s")
@duly.task
async def rollup() -> None:
    """Takes longer than its interval: every other run is skipped, with the reason."""
    await sleep(4)


@duly.task(retry=Retry(attempts=5, backoff=["1s", "2s"]))
async def charge(customer: int) -> str:
    """Fails on the first attempts and is retried."""
    if current().attempt < 2 + customer % 2:
        raise ConnectionError("the bank did not answer")
    return f"charged customer {customer}"


@duly.task(retry=None)
def broken(order: int) -> None:
    """Fails without a retry."""
    raise ValueError(f"order {order} has no address")


@duly.on("cart.left", key="cart:{customer}", run_after="30s", unless="cart.paid")
@duly.task(limits=[Limit("mail:{customer}", concurrency=1, rate="2/s")])
async def remind(customer: int) -> None:
    """One reminder per cart, unless it is paid; one mail at a time per customer."""


@duly.task
async def export() -> int:
    """Reports progress and logs."""
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
    """One job per city, and a report of their results."""
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
    """Waits for an approval: on the page, by the command or over HTTP."""
    approved = duly.wait_for("refund.approved", key="order:{order}", timeout="1h")
    look_into.step(order) >> approved
    pay_back.step(order, approved.result)


@duly.schedule("every 40s")
@duly.task
def open_shop() -> None:
    """Creates new work: charges, abandoned carts, a refund."""
    for customer in (7, 8):
        charge.enqueue(customer)
        duly.emit("cart.left", {"customer": customer})
    broken.enqueue(4711)
    export.enqueue()
    refund.using(key="4711", if_exists="keep").enqueue(4711)

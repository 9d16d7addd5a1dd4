"""The work of the shop."""

from duly import clock
from duly.django import duly


@duly.task
def send_receipt(order_id: int) -> str:
    return f"receipt for order {order_id}"


@duly.task(retry=None)
def charge_card(amount: float) -> None:
    raise ValueError(f"the bank refuses {amount}")


@duly.task
async def count_stock() -> None:
    """Count for an hour, or until somebody stops it."""
    await clock.sleep(3_600)

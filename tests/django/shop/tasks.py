import logging
from datetime import datetime
from typing import Any

from django.db import connection

from duly import clock
from duly.django import duly
from duly.django.models import JobWorker
from tests.django.shop.models import Order


@duly.task
def pack(order_id: int) -> str:
    order = Order.objects.get(id=order_id)
    order.state = "packed"
    order.save()
    return f"{order.customer}: packed"


@duly.task(queue="mail", title="Mail to {customer}")
async def mail(customer: str) -> str:
    count = await Order.objects.filter(customer=customer).acount()
    return f"{customer} has {count}"


@duly.task(retry=None)
def fail(text: str) -> None:
    raise ValueError(text)


@duly.task
def open_connection() -> bool:
    """Use a connection; a worker must not keep it."""
    connection.ensure_connection()
    return True


@duly.schedule("0 2 * * *", name="nightly")
@duly.task
def clean() -> None: ...


@duly.task
def call(api_key: str) -> None: ...


@duly.task
def types(  # noqa: PLR0917 - one of each
    text: str,
    number: int,
    ratio: float,
    flag: bool,
    moment: datetime,
    record: dict[str, Any],
) -> list[str]:
    return [type(one).__name__ for one in (text, number, ratio, flag, moment, record)]


@duly.task
def report(day: str | None = None) -> str:
    return day or clock.now().date().isoformat()


@duly.task
def lease_seconds() -> float:
    """Return how long the lease of the worker that runs this lasts."""
    return (JobWorker.objects.latest("id").lease_until - clock.now()).total_seconds()


@duly.task(retry=None)
def leak(api_key: str, *, fails: bool) -> str:
    """Repeat a secret wherever a job can."""
    logging.getLogger(__name__).warning("called with %s", api_key)
    if fails:
        raise ValueError(f"refused {api_key}")
    return api_key

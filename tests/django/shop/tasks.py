from django.db import connection

from duly.django import duly
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

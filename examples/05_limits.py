"""Not too much at once, and not too often: for all of a service, and for each of its customers.

The name of a limit is a template over the arguments; one name is one limit, in the whole cluster.
An operator may change it at any time: ``duly limits set crm --rate 10/s``.
"""

from duly import Duly, Limit
from duly.clock import sleep

duly = Duly()

running: dict[int, int] = {}
most: dict[int, int] = {}


@duly.task(
    limits=[
        Limit("crm", rate="50/s"),
        Limit("crm:{customer_id}", concurrency=1, rate="20/s"),
    ]
)
async def sync_customer(customer_id: int) -> None:
    """Counts how many of a customer's run at once, where yours would ask the CRM."""
    running[customer_id] = running.get(customer_id, 0) + 1
    most[customer_id] = max(most.get(customer_id, 0), running[customer_id])
    await sleep(0.2)
    running[customer_id] -= 1

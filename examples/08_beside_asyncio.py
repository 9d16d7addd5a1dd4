"""Inside a web application that runs on asyncio: FastAPI, Starlette, Litestar.

    app = FastAPI(lifespan=duly.lifespan)

is all that is needed where the application has no lifespan of its own. Here it has one.
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from duly import Duly

duly = Duly()


@duly.task
async def confirm(order: int) -> str:
    return f"order {order} is confirmed"


@asynccontextmanager
async def lifespan(_app: object) -> AsyncGenerator[None]:
    """Schedules and jobs run on the application's loop, and end with it."""
    async with duly.running():
        yield


async def buy(order: int) -> int:
    """A route of yours: on a loop, whatever touches the store is awaited."""
    job = await confirm.aenqueue(order)
    return job.id

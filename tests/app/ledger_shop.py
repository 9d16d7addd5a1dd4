"""Tasks that write to the database of their own jobs, and end them in the same transaction."""

from duly import Duly, current

duly = Duly()


@duly.task
async def bill_async(number: int) -> dict[str, int]:
    async with current().transaction() as connection:
        await connection.execute(f"insert into invoice values ({int(number)})")
        connection.complete({"invoice": number})
    raise RuntimeError("what happens after the commit changes nothing")


@duly.task
def bill_in_a_thread(number: int) -> dict[str, int]:
    with current().transaction() as connection:
        connection.execute(f"insert into invoice values ({int(number)})")
        connection.complete({"invoice": number})
    return {}  # the result is what was committed


@duly.task(executor="process")
def bill_in_a_process(number: int) -> dict[str, int]:
    with current().transaction() as connection:
        connection.execute(f"insert into invoice values ({int(number)})")
        connection.complete({"invoice": number})
    return {}  # the result is what was committed


@duly.task(retry=None)
async def bill_and_fail(number: int) -> None:
    async with current().transaction() as connection:
        await connection.execute(f"insert into invoice values ({int(number)})")
        raise RuntimeError("before the commit")


@duly.task
def bill_many(number: int) -> None:
    """Write three rows, so that a kill may come between two of them."""
    with current().transaction() as connection:
        for _ in range(3):
            connection.execute(f"insert into invoice values ({int(number)})")

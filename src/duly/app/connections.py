"""What is written on a connection of the caller's, if one is given, and in our own store if not."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

from duly.app.home import Home
from duly.errors import SchemaMismatch
from duly.store.connect import place
from duly.store.foreign import Verb, Work, awrite_on, write_on

T = TypeVar("T")


def write(home: Home, work: Work[T], verb: Verb, *, connection: object | None) -> T:
    """Have it done; ``verb`` is what the caller said, and could have awaited."""
    if connection is None:
        return home.call(work, twin=f"{verb.owner}.a{verb.name}()")
    with told_which_database(home, connection):
        return write_on(connection, work, verb)


async def awrite(home: Home, work: Work[T], verb: Verb, *, connection: object | None) -> T:
    if connection is None:
        return await work(await home.store())
    with told_which_database(home, connection):
        return await awrite_on(connection, work, verb)


@contextmanager
def told_which_database(home: Home, connection: object) -> Iterator[None]:
    """Say, of a connection to a database without our tables, which one has them."""
    try:
        yield
    except SchemaMismatch:
        kind = "session" if "session" in type(connection).__name__.lower() else "connection"
        raise SchemaMismatch(
            f"the {kind}'s database has no duly tables; duly uses {place(home.url)}"
        ) from None

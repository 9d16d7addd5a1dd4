"""How a check says that a store broke a promise.

Not ``assert``: the suite is run by store authors too, perhaps without pytest, perhaps with ``-O``.
"""

from collections.abc import Iterator
from contextlib import contextmanager


class Broken(AssertionError):
    """A promise of the store does not hold."""


class NotApplicable(Exception):
    """The check needs something that this store does not have."""


def equal(found: object, wanted: object, what: str = "") -> None:
    if found != wanted:
        raise Broken(f"{what or 'wrong'}:\n  found  {found!r}\n  wanted {wanted!r}")


def holds(found: object, what: str) -> None:
    if not found:
        raise Broken(f"{what}: found {found!r}")


@contextmanager
def refused(error: type[Exception], saying: str = "") -> Iterator[None]:
    """What is done inside must raise this error, with these words in it."""
    try:
        yield
    except error as raised:
        if saying not in str(raised):
            raise Broken(f"refused without saying {saying!r}: {raised}") from raised
    else:
        raise Broken(f"not refused; {error.__name__} was wanted")

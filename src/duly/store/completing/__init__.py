"""A task's own transaction, which ends its job together with what the task has written.

    async with current().transaction() as tx:
        await tx.execute("insert into invoice …")
        tx.complete({"invoices": 1})

The commit *is* the completion: either both are there or neither is, whatever dies in between.
"""

from collections.abc import Callable
from datetime import datetime, timedelta

from duly.errors import InvalidValue, StoreUnavailable
from duly.model.payload import Json
from duly.store.completing.completion import JobCompletion, TransactionOpener
from duly.store.connect import is_postgres, is_remote, place, spoken
from duly.store.sqlite.connection import MEMORY
from duly.store.sqlite.transaction import SqliteOpener
from duly.store.values import Settlement


def open_completion(
    url: str,
    *,
    settlement: Callable[[Json | None], Settlement],
    encode: Callable[[object], Json],
    lease: timedelta,
    features: bool = True,
    clock: Callable[[], datetime] | None = None,
) -> JobCompletion:
    """Return the context manager behind ``transaction()``, for one attempt at a job.

    ``settlement`` says what the job becomes, with its result as it was encoded by ``encode``.
    """
    if is_postgres(url):
        opener = _postgres(url, lease=lease, features=features, clock=clock)
    elif is_remote(url) or url == MEMORY:
        raise InvalidValue(
            "transaction() needs a database that the task can open, PostgreSQL or an SQLite file, "
            f"but the store is {place(url)}: make the task idempotent"
        )
    else:
        opener = SqliteOpener(place(url), lease=lease, clock=clock)
    return JobCompletion(opener, settlement=settlement, encode=encode)


def _postgres(
    url: str, *, lease: timedelta, features: bool, clock: Callable[[], datetime] | None
) -> TransactionOpener:
    try:
        from duly.store.postgres import transaction  # noqa: PLC0415 - an extra
    except ModuleNotFoundError as error:
        raise StoreUnavailable(
            f'PostgreSQL needs {error.name}: pip install "duly[postgres]"'
        ) from None
    address, dialect = spoken(url, features=features)
    return transaction.Opener(address, dialect=dialect, lease=lease, clock=clock)

"""A task's own transaction, which ends its job together with what the task has written.

    async with current().transaction() as tx:
        await tx.execute("insert into invoice …")
        tx.complete({"invoices": 1})

The commit *is* the completion: either both are there or neither is, whatever dies in between.
"""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from duly.errors import InvalidValue, StoreUnavailable
from duly.model.payload import Json
from duly.store.connect import is_postgres, place, spoken
from duly.store.values import Settlement

if TYPE_CHECKING:
    from duly.store.completing.completion import JobCompletion


def open_completion(
    url: str,
    *,
    settlement: Callable[[Json | None], Settlement],
    encode: Callable[[object], Json],
    lease: timedelta,
    features: bool = True,
    clock: Callable[[], datetime] | None = None,
) -> "JobCompletion":
    """Return the context manager behind ``transaction()``, for one attempt at a job.

    ``settlement`` says what the job becomes, with its result as it was encoded by ``encode``.
    """
    if not is_postgres(url):
        raise InvalidValue(
            f"transaction() needs PostgreSQL, but the database is {place(url)}: in an SQLite file "
            "an open transaction of a task would block every other writer; make the task "
            "idempotent, or use postgresql://…"
        )
    try:
        from duly.store.completing.completion import JobCompletion  # noqa: PLC0415 - an extra
        from duly.store.postgres.transaction import Opener  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise StoreUnavailable(
            f'PostgreSQL needs {error.name}: pip install "duly[postgres]"'
        ) from None
    address, dialect = spoken(url, features=features)
    opener = Opener(address, dialect=dialect, lease=lease, clock=clock)
    return JobCompletion(opener, settlement=settlement, encode=encode)

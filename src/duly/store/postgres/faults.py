"""Classify errors of PostgreSQL: retry, unavailable, outcome unknown, or a bug."""

import psycopg
from psycopg import errors

from duly.errors import Busy, OutcomeUnknown, StoreUnavailable

# Errors after which the transaction may succeed if it is run again.
PASSING = (errors.SerializationFailure, errors.DeadlockDetected)

# Classes and codes of errors after which the connection is unusable.
_LOST = (
    "08",  # the connection itself
    "57P",  # stopping, starting, or an administrator ended us
    "25006",  # read only: a standby, or a primary that became one
)

# A lock was not acquired in time.
_HELD = "55P03"

# … and of errors that mean that the database is unavailable now, but may recover soon.
_BUSY = (
    "42501",  # missing privilege of our role: an administrator can grant it
    "53",  # out of disk, memory or connections
    "57014",  # the statement took too long
    "58",  # the disk under the server
)


def is_lost(error: BaseException) -> bool:
    """Return whether the connection is unusable: it broke, or its server is read-only.

    An operational error without a code did not come from the server.
    """
    if not isinstance(error, psycopg.Error):
        return False
    if error.sqlstate is None:
        return isinstance(error, psycopg.OperationalError)
    fatal = error.diag.severity_nonlocalized != "ERROR"
    return fatal or error.sqlstate.startswith(_LOST)


def is_unknown(error: BaseException) -> bool:
    """Return whether a commit that failed with this error may have been done.

    Only a plain error says that the server is there and has rolled back; 40003 is the one by which
    it says that it does not know.
    """
    return not isinstance(error, psycopg.Error) or is_lost(error) or error.sqlstate == "40003"


def is_missing_partition(error: psycopg.Error) -> bool:
    # The message is translated into the server's language; only this one names no constraint.
    return (
        isinstance(error, errors.CheckViolation)
        and error.diag.constraint_name is None
        and error.diag.table_name is not None
    )


def translated(error: psycopg.Error, *, place: str, committing: bool) -> StoreUnavailable | None:
    """Return duly's error to raise instead; None if this one is a bug and is raised unchanged."""
    if committing:
        return outcome_unknown(place, said_by(error))
    if error.sqlstate == _HELD:
        return Busy(f"{place}: another open transaction holds a lock on the rows; nothing was done")
    if isinstance(error, PASSING) or is_lost(error) or (error.sqlstate or "").startswith(_BUSY):
        return unavailable(place, said_by(error))
    return None


def outcome_unknown(place: str, said: str) -> OutcomeUnknown:
    return OutcomeUnknown(
        f"{place} was lost during a commit, which may have succeeded; repeat the call to be sure: "
        f"{said}"
    )


def unavailable(place: str, said: str) -> StoreUnavailable:
    return StoreUnavailable(f"{place} is not available, and nothing was done: {said}")


def said_by(error: psycopg.Error) -> str:
    return error.diag.message_primary or " ".join(str(error).split())

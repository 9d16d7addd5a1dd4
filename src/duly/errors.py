"""The errors that duly raises.

::

    DulyError
    ├── RuleError            a rule about time that cannot be read or evaluated
    │   └── ZoneMissing      … because it names an hour or a day, and no zone
    ├── InvalidValue         a value that is not allowed: a policy, a name, a limit
    │   └── PayloadError     … arguments or a result that are not plain JSON, or too large
    ├── NotFound             no schedule or job of that name or number
    ├── ScheduleExists       a schedule of that name exists already
    ├── KeyTaken             an unfinished job of that task holds the key, and if_exists="error"
    ├── WrongState           the job or schedule is not in a state that allows the action
    ├── NotSignedIn          over HTTP: no valid token or session
    ├── NotAllowed           over HTTP: the user's role does not allow the action
    ├── NotInAJob            current() was called outside of a job
    ├── NotTheApp            the package was used in place of an app
    ├── SignatureChanged     a job's arguments do not fit its task any more
    ├── JobFailed            a job whose result was waited for ended without one
    ├── LeaseLost            a job is no longer this worker's: another may run it by now
    ├── EngineUnavailable    an engine (Dask, Kubernetes) did not answer
    ├── SchemaMismatch       the database's tables are older or newer than this duly
    └── StoreUnavailable     the database did not answer, and nothing was done …
        ├── Busy             … because an open transaction holds the rows
        ├── WriteBlocked     … because another program holds the write lock of the SQLite file
        └── OutcomeUnknown   … or it may have been done: the answer to a commit was lost

A task may raise ``Permanent`` and ``RetryAfter``, and ``SoftTimeout`` is raised inside of it. They
are no DulyErrors, so that ``except DulyError`` in a task does not catch them::

    Permanent                do not retry
    RetryAfter               retry, but not before a moment
    TimeoutError
    └── SoftTimeout          the timeout has passed; ``grace`` is left for cleaning up

Every message says what was asked, what was found and what is possible.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta


class DulyError(Exception):
    """The base class of the errors that duly raises on purpose."""


class RuleError(DulyError, ValueError):
    """A rule about time that cannot be read or evaluated.

    ``position`` is the column in ``text``, from 0, where reading failed; ``suggestions`` are other
    texts that may be meant. ``str`` of the error is the ``message`` and the suggestions.
    """

    def __init__(
        self,
        message: str,
        *,
        text: str = "",
        position: int | None = None,
        suggestions: Sequence[str] = (),
    ) -> None:
        meant = f"; did you mean {' or '.join(suggestions)}?" if suggestions else ""
        super().__init__(message + meant)
        self.message = message
        self.text = text
        self.position = position
        self.suggestions: tuple[str, ...] = tuple(suggestions)

    @property
    def suggestion(self) -> str | None:
        return self.suggestions[0] if self.suggestions else None


class ZoneMissing(RuleError):
    """A rule that names an hour or a day, but no time zone."""


class InvalidValue(DulyError, ValueError):
    """A value that is not allowed."""


class PayloadError(InvalidValue):
    """Arguments or a result that are not plain JSON, or too large, or too deep."""


class NotFound(DulyError, LookupError):
    """There is no such schedule or job."""


class ScheduleExists(DulyError):
    """A schedule of that name exists already."""


class KeyTaken(DulyError):
    """An unfinished job of the task holds the key."""


class WrongState(DulyError):
    """The state of the job or schedule does not allow the action."""


class NotSignedIn(DulyError):
    """The HTTP request has no valid token and no session."""


class NotAllowed(DulyError):
    """The user of the HTTP request is known, but may not do this."""


class NotInAJob(DulyError):
    """``current()`` was called outside of a job."""


class NotTheApp(DulyError, AttributeError):
    """The package ``duly`` was used in place of an app, ``Duly()``."""


class SignatureChanged(DulyError):
    """A job was enqueued for another signature of its task than this worker has."""


class JobFailed(DulyError):
    """A job ended without success: ``state`` is failed, cancelled or expired, ``reason`` says why.

    ``error`` is the error of the last attempt, usually with a traceback.
    """

    def __init__(
        self, message: str, *, job: int = 0, state: str = "", reason: str = "", error: str = ""
    ) -> None:
        super().__init__(message)
        self.job = job
        self.state = state
        self.reason = reason
        self.error = error


class LeaseLost(DulyError):
    """The lease of a job ended before the job did; its result is discarded."""


class EngineUnavailable(DulyError):
    """An engine, as Dask or Kubernetes, did not answer."""


class SchemaMismatch(DulyError):
    """The schema of the database does not fit this version of duly."""


class StoreUnavailable(DulyError):
    """The database did not answer.

    Nothing was done, unless it is an ``OutcomeUnknown``.
    """


class Busy(StoreUnavailable):
    """An open transaction holds the rows; nothing was done."""


class WriteBlocked(StoreUnavailable):
    """A program that is not duly holds the write lock of the SQLite file; nothing was done.

    No process of duly can write meanwhile, so leases are extended: by ``seconds`` so far, from
    ``since`` on (``duly.clock.boottime``).
    """

    def __init__(self, message: str, *, since: float, seconds: float) -> None:
        super().__init__(message)
        self.since = since
        self.seconds = seconds


class OutcomeUnknown(StoreUnavailable):
    """The answer to a commit was lost, so it is unknown whether the commit succeeded.

    To enqueue again without duplicates, use the same ``idempotency_key`` both times.
    """


class Permanent(Exception):
    """Raised by a task that failed and must not be retried."""


class RetryAfter(Exception):
    """Raised by a task that failed and may be retried after a ``delay`` or at a moment.

    ``RetryAfter("10m")``, ``RetryAfter(timedelta(minutes=10))``, ``RetryAfter(moment)``.
    """

    def __init__(self, delay: str | timedelta | datetime, message: str = "", /) -> None:
        asked: object = delay
        if not isinstance(asked, str | timedelta | datetime):
            raise TypeError(
                f'RetryAfter({asked!r}): expected "{asked}s", a timedelta or a datetime'
            )
        super().__init__(message or f"try again after {delay}")
        self.delay = delay
        self.message = message


class SoftTimeout(TimeoutError):
    """Raised inside a task when its timeout has passed; its ``grace`` is left for cleaning up."""

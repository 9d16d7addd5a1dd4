"""What duly says when it must say no.

    DulyError
    ├── RuleError            a rule about time that cannot be read, or cannot be kept
    │   └── ZoneMissing      … because it names an hour or a day, and no zone
    ├── InvalidValue         a value that cannot be kept: a policy, a name, a limit
    │   └── PayloadError     … arguments or a result that are not plain JSON, or too large
    ├── NotFound             no schedule or job of that name or number
    ├── ScheduleExists       a schedule of that name is there already
    ├── KeyTaken             an unfinished job of that task holds the key, and if_exists="error"
    ├── WrongState           what was asked cannot follow the state a thing is in
    ├── NotSignedIn          over HTTP: it is not known who asks
    ├── NotAllowed           over HTTP: who asks has not the role that it takes
    ├── NotInAJob            current() was asked where no job runs
    ├── NotTheApp            the package was asked for what an app has
    ├── SignatureChanged     a job's arguments do not fit its task any more
    ├── JobFailed            a job whose result was waited for ended without one
    ├── LeaseLost            a job is no longer this worker's: another may run it by now
    ├── SchemaMismatch       the database's tables are older or newer than this duly
    └── StoreUnavailable     the database did not answer, and nothing was done …
        ├── WriteBlocked     … because another program holds the write lock of the SQLite file
        └── OutcomeUnknown   … or it may have been done: the answer to a commit was lost

What a task may raise to say how it goes on, and what it may meet. These are no DulyErrors: who
catches those in a task means what duly could not do, not what the task itself has to say.

    Permanent                trying again is no use
    RetryAfter               try again, but not before
    TimeoutError
    └── SoftTimeout          the task's time is up, and it has its ``grace`` to tidy up

Every message says what was asked, what was found and what is possible.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta


class DulyError(Exception):
    """The root of every error that duly raises on purpose."""


class RuleError(DulyError, ValueError):
    """A rule about time that cannot be read, or a question that it cannot answer.

    ``position`` is the column in ``text``, counted from 0, where reading failed; ``suggestion`` is
    what was probably meant. ``str`` of the error is the ``message`` and, behind it, what was meant.
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
        self.suggestions = tuple(suggestions)

    @property
    def suggestion(self) -> str | None:
        return self.suggestions[0] if self.suggestions else None


class ZoneMissing(RuleError):
    """A rule that names an hour or a day, but not in which time zone."""


class InvalidValue(DulyError, ValueError):
    """A value that cannot be kept."""


class PayloadError(InvalidValue):
    """Arguments or a result that are not plain JSON, or too large, or too deep."""


class NotFound(DulyError, LookupError):
    """There is no such schedule or job."""


class ScheduleExists(DulyError):
    """A schedule of that name is there already."""


class KeyTaken(DulyError):
    """An unfinished job of the task holds the key."""


class WrongState(DulyError):
    """What was asked cannot follow the state that a job or schedule is in."""


class NotSignedIn(DulyError):
    """Over HTTP: there is no token, or none that is valid, or no session."""


class NotAllowed(DulyError):
    """Over HTTP: who asks is known, and may not do this."""


class NotInAJob(DulyError):
    """There is no current job to ask about."""


class NotTheApp(DulyError, AttributeError):
    """The package was taken for the app that is made with it."""


class SignatureChanged(DulyError):
    """A job was made for another signature of its task than the one this worker has."""


class JobFailed(DulyError):
    """A job ended, and not well: ``state`` is failed, cancelled or expired, ``reason`` says why.

    ``error`` is what its last attempt left behind: mostly a traceback.
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
    """The lease of a job ended before the job did, and nothing that it does counts any more."""


class SchemaMismatch(DulyError):
    """The tables in the database are not the ones this version of duly works with."""


class StoreUnavailable(DulyError):
    """The database did not answer.

    Nothing was done, unless it is an ``OutcomeUnknown``.
    """


class Busy(StoreUnavailable):
    """Somebody holds what was asked for, in a transaction that is still open; nothing was done."""


class WriteBlocked(StoreUnavailable):
    """A program that is not duly holds the write lock of the SQLite file; nothing was done.

    No process of duly can write meanwhile, so leases stand still: by ``seconds`` so far, in a time
    that began at ``since``, on ``duly.clock.boottime``.
    """

    def __init__(self, message: str, *, since: float, seconds: float) -> None:
        super().__init__(message)
        self.since = since
        self.seconds = seconds


class OutcomeUnknown(StoreUnavailable):
    """The answer to a commit was lost, and it could not be found out whether it was done.

    To enqueue again without doing it twice, use the same ``idempotency_key`` both times.
    """


class Permanent(Exception):
    """Raised by a task: it failed, and would fail again."""


class RetryAfter(Exception):
    """Raised by a task: it failed, and may be tried again after a ``delay`` or at a moment.

    ``RetryAfter("10m")``, ``RetryAfter(timedelta(minutes=10))``, ``RetryAfter(moment)``.
    """

    def __init__(self, delay: str | timedelta | datetime, message: str = "", /) -> None:
        asked: object = delay
        if not isinstance(asked, str | timedelta | datetime):
            raise TypeError(f'RetryAfter({asked!r}): say "{asked}s", a timedelta or a moment')
        super().__init__(message or f"try again after {delay}")
        self.delay = delay
        self.message = message


class SoftTimeout(TimeoutError):
    """Raised inside a task whose time is up: what it does now, it does in its ``grace``."""

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
    ├── SchemaMismatch       the database's tables are older or newer than this duly
    └── StoreUnavailable     the database did not answer; nothing was done
        └── OutcomeUnknown   … or it was done, and the answer was lost

Every message says what was asked, what was found and what is possible.
"""

from collections.abc import Sequence


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


class SchemaMismatch(DulyError):
    """The tables in the database are not the ones this version of duly works with."""


class StoreUnavailable(DulyError):
    """The database did not answer, and nothing was done."""


class OutcomeUnknown(StoreUnavailable):
    """The answer to a commit was lost: it may have been done.

    Every write of duly may be repeated after this: what was done is then found done.
    """

"""What duly says when it must say no.

    DulyError
    └── RuleError            a rule about time that cannot be read, or cannot be kept
        └── ZoneMissing      … because it names an hour or a day, and no zone

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

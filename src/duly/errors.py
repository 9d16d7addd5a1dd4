"""What duly says when it must say no.

    DulyError
    └── RuleError            a rule about time that cannot be read, or cannot be kept
        └── ZoneMissing      … because it names an hour or a day, and no zone

Every message says what was asked, what was found and what is possible.
"""


class DulyError(Exception):
    """The root of every error that duly raises on purpose."""


class RuleError(DulyError, ValueError):
    """A rule about time that cannot be read, or a question that it cannot answer.

    ``position`` is the column in ``text``, counted from 0, where reading failed; ``suggestion`` is
    what was probably meant. Both are already part of the message.
    """

    def __init__(
        self,
        message: str,
        *,
        text: str = "",
        position: int | None = None,
        suggestion: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.text = text
        self.position = position
        self.suggestion = suggestion


class ZoneMissing(RuleError):
    """A rule that names an hour or a day, but not in which time zone."""

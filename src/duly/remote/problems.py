"""Errors over HTTP: each as a problem document (RFC 9457), and back as the same error.

The slug of a problem, the end of its ``type``, is the name of the error's class: a client over HTTP
gets the same errors as a caller of a local store.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from duly import errors
from duly.errors import DulyError

TYPES: Final = "/problems/"  # what is before the slug in a problem's ``type``
MEDIA_TYPE: Final = "application/problem+json"

_CAPITAL = re.compile(r"(?<=[a-z])(?=[A-Z])")
_OTHER = 400
# The most specific class first: an error gets the slug of the first class that matches.
_KINDS: Final[Mapping[type[DulyError], tuple[int, str]]] = {
    errors.NotSignedIn: (401, "Authentication required"),
    errors.NotAllowed: (403, "Not permitted"),
    errors.NotFound: (404, "Not found"),
    errors.ScheduleExists: (409, "The schedule exists already"),
    errors.KeyTaken: (409, "An unfinished job has the key"),
    errors.WrongState: (409, "Not possible in this state"),
    errors.SignatureChanged: (409, "The arguments do not match the task any more"),
    errors.ZoneMissing: (422, "A time zone is missing"),
    errors.RuleError: (422, "Invalid rule"),
    errors.PayloadError: (422, "Not plain JSON, or too large"),
    errors.InvalidValue: (422, "Invalid value"),
    errors.OutcomeUnknown: (503, "The change may have been made"),
    errors.Busy: (503, "Locked by another transaction"),
    errors.StoreUnavailable: (503, "The database did not answer"),
    errors.SchemaMismatch: (503, "The schema has another version"),
    errors.JobFailed: (_OTHER, "The job did not succeed"),
    DulyError: (_OTHER, "Not possible"),
}


@dataclass(frozen=True, slots=True)
class HttpProblem:
    """An error as it is sent: ``slug`` for programs, ``detail`` for people."""

    slug: str
    title: str
    status: int
    detail: str

    def as_json(self) -> dict[str, object]:
        return {
            "type": TYPES + self.slug,
            "title": self.title,
            "status": self.status,
            "detail": self.detail,
        }


def problem_of(error: DulyError) -> HttpProblem:
    kind = next(kind for kind in _KINDS if isinstance(error, kind))
    status, title = _KINDS[kind]
    return HttpProblem(slug_of(kind), title, status, str(error))


def error_of(slug: str, detail: str) -> DulyError:
    """Return the error of a problem; an unknown slug gives a general error."""
    return _BY_SLUG.get(slug, DulyError)(detail)


def slug_of(kind: type[DulyError]) -> str:
    """``not-found`` of ``NotFound``."""
    return _CAPITAL.sub("-", kind.__name__).lower()


_BY_SLUG: Final = {slug_of(kind): kind for kind in _KINDS}

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
    errors.NotSignedIn: (401, "It is not known who asks"),
    errors.NotAllowed: (403, "Who asks may not do this"),
    errors.NotFound: (404, "There is no such thing"),
    errors.ScheduleExists: (409, "There is a schedule of that name"),
    errors.KeyTaken: (409, "An unfinished job holds the key"),
    errors.WrongState: (409, "This cannot follow the state it is in"),
    errors.SignatureChanged: (409, "The arguments do not fit the task any more"),
    errors.ZoneMissing: (422, "A time zone is missing"),
    errors.RuleError: (422, "A rule cannot be read"),
    errors.PayloadError: (422, "Not plain JSON, or too large"),
    errors.InvalidValue: (422, "A value cannot be kept"),
    errors.OutcomeUnknown: (503, "It may have been done"),
    errors.Busy: (503, "Somebody else holds it"),
    errors.StoreUnavailable: (503, "The store did not answer"),
    errors.SchemaMismatch: (503, "The tables are of another version"),
    errors.JobFailed: (_OTHER, "The job did not end well"),
    DulyError: (_OTHER, "That cannot be done"),
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

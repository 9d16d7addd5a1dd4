"""HTTP exchanges with a remote duly server.

Standard library only, in threads. Connections are kept for the next call. Redirects are not
followed, and answers are bounded.

The bearer token is read from its file for every call, and never shown.
"""

import asyncio
import contextlib
import os
import re
import select
import socket
import ssl
import stat
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Final
from urllib.parse import urlsplit

from duly import errors
from duly.errors import DulyError, InvalidValue, OutcomeUnknown, StoreUnavailable

LONGEST: Final = 4096
OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO
MAKE_ONE: Final = "duly tokens create NAME --role viewer, where the database is"


@dataclass(frozen=True, slots=True)
class RemoteToken:
    file: str
    secret: str = field(repr=False)


def read_token(file: str | None, *, place: str) -> RemoteToken:
    """Return the first line of a file that only its owner may read."""
    if not file:
        raise InvalidValue(
            f"{place} needs a token: use --token-file FILE, DULY_TOKEN_FILE=FILE, or "
            f'token_file = "FILE" in duly.toml; an admin creates one: {MAKE_ONE}'
        )
    try:
        return RemoteToken(file, _checked(file, _first_line(file)))
    except OSError as error:
        raise InvalidValue(f"the token file {file}: {error.strerror}") from None


def _first_line(file: str) -> bytes:
    with open(file, "rb") as opened:  # noqa: PTH123 - what is looked at is what is read
        if stat.S_IMODE(os.fstat(opened.fileno()).st_mode) & OTHERS:
            raise InvalidValue(f"others may read the token file {file}: chmod 600 {file}")
        return opened.readline(LONGEST)


def _checked(file: str, line: bytes) -> str:
    secret = line.strip()
    if not secret:
        raise InvalidValue(f"the token file {file} is empty: its first line is the token's secret")
    if not secret.isascii() or not secret.decode().isprintable() or b" " in secret:
        raise InvalidValue(f"the first line of {file} is not a token, which is a single word")
    return secret.decode()


LARGEST: Final = 64 * 1024 * 1024  # bytes of one answer
PATIENCE: Final = 30.0  # seconds without an answer until the server is given up
LONG_PATIENCE: Final = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    path: str
    body: bytes | None = None  # None: GET
    changes: bool = False
    patience: float = PATIENCE
    secret: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    status: int
    kind: str  # the media type
    body: bytes
    location: str = ""


class ServerConnection:
    """Connections to one address, each for one call at a time."""

    def __init__(self, url: str, token: Callable[[], RemoteToken]) -> None:
        parts = urlsplit(url)
        self.place: str = url.rstrip("/")
        self._host = parts.hostname or ""
        self._port = parts.port
        self._path = parts.path.rstrip("/")
        self._tls = ssl.create_default_context() if parts.scheme == "https" else None
        self._token = token
        self._idle: list[HTTPConnection] = []

    async def ask(self, question: Question) -> Reply:
        """Return the answer, whatever its status; ``StoreUnavailable`` if there was none."""
        question = replace(question, secret=self._token().secret)
        used = self._kept()
        try:
            return await self._asked(question, used or self._new())
        except StoreUnavailable:
            # The server may have closed it the moment we used it.
            if used is None or question.changes:
                raise
            return await self._asked(question, self._new())

    def close(self) -> None:
        while self._idle:
            self._idle.pop().close()

    async def _asked(self, question: Question, connection: HTTPConnection) -> Reply:
        try:
            reply = await asyncio.to_thread(self._exchange, question, connection)
        except asyncio.CancelledError:
            _hang_up(connection)  # the thread would wait on, and the program with it
            raise
        self._idle.append(connection)
        return reply

    def _exchange(self, question: Question, connection: HTTPConnection) -> Reply:
        sent = False
        try:
            if connection.sock is None:
                connection.connect()
            connection.sock.settimeout(question.patience)
            sent = True
            return self._answered(question, connection)
        except (OSError, HTTPException) as error:
            connection.close()
            said = f"{self.place} {_in_words(error)}"
            if sent and question.changes:
                raise OutcomeUnknown(
                    f"{said}; the change may have been made: check before you repeat it"
                ) from None
            raise StoreUnavailable(said) from None

    def _answered(self, question: Question, connection: HTTPConnection) -> Reply:
        connection.request(
            "GET" if question.body is None else "POST",
            self._path + question.path,
            body=question.body,
            headers={
                "Authorization": f"Bearer {question.secret}",
                "Accept": "application/json, application/problem+json",
                "Content-Type": "application/json",
            },
        )
        found = connection.getresponse()
        body = found.read(LARGEST + 1)
        if len(body) > LARGEST:
            connection.close()
            raise InvalidValue(
                f"{self.place}: a response of more than {LARGEST // 2**20} MB; ask for less, "
                "for example with --limit"
            )
        kind = found.headers.get_content_type()
        location = found.headers.get("Location", "")
        return Reply(status=found.status, kind=kind, body=body, location=location)

    def _kept(self) -> HTTPConnection | None:
        """Return an idle connection that the server has not closed meanwhile."""
        while self._idle:
            connection = self._idle.pop()
            if connection.sock is not None and not select.select([connection.sock], [], [], 0)[0]:
                return connection
            connection.close()
        return None

    def _new(self) -> HTTPConnection:
        if self._tls is None:
            return HTTPConnection(self._host, self._port, timeout=PATIENCE)
        return HTTPSConnection(self._host, self._port, timeout=PATIENCE, context=self._tls)


def _hang_up(connection: HTTPConnection) -> None:
    if connection.sock is not None:
        with contextlib.suppress(OSError):  # it is closed
            connection.sock.shutdown(socket.SHUT_RDWR)


def _in_words(error: OSError | HTTPException) -> str:  # noqa: PLR0911 - one for each
    match error:
        case TimeoutError():
            return "did not answer in time"
        case ssl.SSLCertVerificationError():
            return f"has a certificate that cannot be trusted: {error.verify_message}"
        case ssl.SSLError():
            return f"failed the TLS handshake: {error.reason}"
        case socket.gaierror():
            return f"has an unknown host name: {error.strerror}"
        case ConnectionRefusedError():
            return "cannot be reached: connection refused"
        case OSError() if error.strerror:
            return f"cannot be reached: {error.strerror}"
        case _:
            return "closed the connection without an answer"


TYPES: Final = "/problems/"  # prefix of the slug in a problem's ``type``
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

"""An endpoint of the API: a typed body, a typed response, and a sentence for people.

A program sends JSON, which is checked by the body's type. A button of a page sends a form to the
same endpoint, and gets the sentence. So a program can do whatever a page can, with the same rights.

A body refuses fields that it does not know; a field that is left out is not the same as one that is
null. Moments are RFC 3339, durations texts such as ``5m``.
"""

import re
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import sha256
from inspect import cleandoc
from typing import (
    Annotated,
    Any,
    Final,
    Generic,
    Self,
    TypeAlias,
    TypedDict,
    TypeVar,
    Unpack,
    get_type_hints,
)
from urllib.parse import parse_qs

import msgspec
from msgspec import UNSET, Meta, inspect
from starlette.responses import HTMLResponse, RedirectResponse, Response

from duly.clock import now
from duly.errors import InvalidValue, NotFound
from duly.model.access import Role
from duly.model.payload import check_text, encode
from duly.views.times import read_past, read_when
from duly.web.authentication import CSRF_FIELD
from duly.web.rendering import render
from duly.web.request import WebRequest
from duly.web.routes import WebRoute, WebServices

F = TypeVar("F", bound=Callable[..., Awaitable[Any]])
B = TypeVar("B")
A = TypeVar("A")

MOST_FIELDS = 1_000
LONGEST_TEXT = 1024 * 1024  # of a field, or of a part of a query
NUL = rb"\u0000"  # as JSON writes it
QUERIED = ("GET", "DELETE")  # methods without a body
PART: Final = re.compile(r"{(\w+)(?::\w+)?}")  # of a path
MOST_DIGITS: Final = 18
_ENCODER = msgspec.json.Encoder(decimal_format="number")


class Nothing(msgspec.Struct, frozen=True):
    """No body, or no query."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint(Generic[B, A]):
    """``run`` gets the request, the parts of the path, and the body or the query if it has one."""

    method: str
    path: str  # below /api/v1, as "/schedules/{name}/pause"
    role: Role
    run: Callable[..., Awaitable[A]]
    summary: str  # a line, for the documentation
    tag: str  # the group in the documentation: jobs, schedules, …
    body: type[B] = Nothing  # type: ignore[assignment] # of a GET or DELETE: its query
    answer: type[A] | None = None  # None: nothing
    numbered: Collection[str] = ()  # the parts of the path that are numbers
    status: int = 200
    tenants: bool = False
    say: Callable[[A], str] | None = None  # the message after a button was pressed
    leads_to: str = ""  # the page that follows; empty: the same page
    about: str = ""  # more, for the documentation
    example: Mapping[str, Any] | None = None  # of a body, for the documentation
    once: bool = False  # whether the header Idempotency-Key is honoured

    def route(self, version: str) -> WebRoute:
        return WebRoute(
            method=self.method,
            path=version + self.path,
            role=self.role,
            handler=self.show,
            tenants=self.tenants,
        )

    async def show(self, _: WebServices, request: WebRequest, body: bytes) -> Response:
        parts = [self._part(what, name) for what, name in request.names.items()]
        said = self._read(request, body)
        value = await self.run(request, *parts, *(() if self.body is Nothing else (said,)))
        if request.is_htmx or request.is_form:
            return self._told(request, value)
        if self.answer is None:
            return Response(status_code=204)
        return Response(
            _ENCODER.encode(value), status_code=self.status, media_type="application/json"
        )

    def _part(self, what: str, text: str) -> str | int:
        check_text(text, what)
        if what not in self.numbered:
            return text
        if not (text.isascii() and text.isdigit() and len(text) <= MOST_DIGITS):
            noun = "job" if what == "id" else what
            raise NotFound(f'there is no {noun} "{text[:40]}": {noun} ids are numbers')
        return int(text)

    def _read(self, request: WebRequest, body: bytes) -> B:
        if self.method in QUERIED:
            form = _of_form(body, self.body) if request.is_form else {}
            return _converted(_of_query(request) | form, self.body, strict=False)
        if request.is_form:
            return _converted(_of_form(body, self.body), self.body, strict=False)
        if NUL in body:
            _check_texts(body)
        try:
            return msgspec.json.decode(body or b"{}", type=self.body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise InvalidValue(f"the body: {error}") from None

    def _told(self, request: WebRequest, value: A) -> Response:
        """Answer a pressed button with the outcome; without scripts, with the page it was on."""
        text = self.say(value) if self.say else "Done."
        if not request.is_htmx:
            return RedirectResponse(request.at(self.leads_to or "/"), status_code=303)
        headers = {"hx-redirect": request.at(self.leads_to)} if self.leads_to else {}
        toast = render("toast.html", request, {"kind": "good", "text": text})
        return HTMLResponse(toast, headers=headers)


class EndpointOptions(TypedDict, total=False):
    """The options of an endpoint, which its function is decorated with."""

    status: int
    tenants: bool
    say: Callable[[Any], str]
    leads_to: str
    example: Mapping[str, Any]
    once: bool


class Router:
    """The endpoints of a tag, each declared by decorating its function.

    The function takes the request, the parts of the path in their order, and the body or query if
    there is one; the annotations are their types, and that of the response. Its docstring is the
    documentation: a summary line, and more.
    """

    def __init__(self, tag: str, *, tenants: bool = False) -> None:
        self.tag = tag
        self.tenants = tenants
        self.endpoints: list[Endpoint[Any, Any]] = []

    def __call__(
        self, place: str, role: Role, **options: Unpack[EndpointOptions]
    ) -> Callable[[F], F]:
        """Declare the endpoint of a method and a path, as ``GET /queues``."""
        method, path = place.split()
        options.setdefault("tenants", self.tenants)

        def declare(run: F) -> F:
            hints = get_type_hints(run)
            answer, given, parts = hints.pop("return"), [*hints.values()][1:], PART.findall(path)
            summary, _, about = cleandoc(run.__doc__ or "").partition("\n\n")
            endpoint: Endpoint[Any, Any] = Endpoint(
                method=method,
                path=path,
                role=role,
                run=run,
                summary=summary.removesuffix("."),
                about=" ".join(about.split()),
                tag=self.tag,
                body=given[-1] if len(given) > len(parts) else Nothing,
                answer=None if answer is type(None) else answer,
                numbered=[part for part, kind in zip(parts, given, strict=False) if kind is int],
                **options,
            )
            self.endpoints.append(endpoint)
            return run

        return declare


def once_of(request: WebRequest, body: msgspec.Struct) -> tuple[str, str] | None:
    """Return the idempotency key of a request and the fingerprint of its body; None without one."""
    if request.once is None:
        return None
    return request.once, sha256(msgspec.json.encode(body, order="deterministic")).hexdigest()


def _of_query(request: WebRequest) -> dict[str, Any]:
    return {name: _text(name, value) for name, value in request.query.items() if value != ""}


def _text(name: str, value: str) -> str:
    """Refuse values that no database can store, because nothing can match them."""
    return check_text(value, name, longest=LONGEST_TEXT)


def _check_texts(body: bytes) -> None:
    """Refuse a body in which a text holds a NUL character."""
    try:
        encode(msgspec.json.decode(body), what="the body", longest=len(body))
    except (msgspec.DecodeError, RecursionError):
        return  # not JSON: the decoder reports it


def _of_form(body: bytes, wanted: type) -> dict[str, Any]:
    """Read the fields of a form: several of one name are a list, and an object is typed as JSON.

    An empty field is None if the type allows it, otherwise an empty text.
    """
    try:
        said = parse_qs(body.decode(), keep_blank_values=True, max_num_fields=MOST_FIELDS)
    except ValueError:
        raise InvalidValue("the form cannot be read") from None
    info = msgspec.inspect.type_info(wanted)
    fields = info.fields if isinstance(info, msgspec.inspect.StructType) else ()
    kinds = {one.encode_name: _kinds(one.type) for one in fields}
    for name, values in said.items():
        for value in values:
            _text(name, value)
    found = {name: _field(name, said[name], kinds.get(name, ())) for name in said}
    return {
        name: value
        for name, value in found.items()
        if name != CSRF_FIELD and value is not msgspec.UNSET
    }


def _field(name: str, values: list[str], kinds: Collection[type]) -> object:
    text = values[-1]
    if inspect.ListType in kinds or inspect.VarTupleType in kinds:
        return [value for value in values if value]
    if not text.strip():
        none = None if inspect.NoneType in kinds else msgspec.UNSET
        return "" if inspect.StrType in kinds and none is msgspec.UNSET else none
    if inspect.DictType not in kinds:
        return text
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        raise InvalidValue(f"{name}: not valid JSON: {error}") from None


def _kinds(kind: inspect.Type) -> set[type]:
    """Return the kinds of types that a field may have."""
    match kind:
        case inspect.UnionType():
            return {found for one in kind.types for found in _kinds(one)}
        case inspect.Metadata():
            return _kinds(kind.type)
        case _:
            return {type(kind)}


def _converted(said: Mapping[str, Any], wanted: type[B], *, strict: bool) -> B:
    try:
        return msgspec.convert(said, wanted, strict=strict)
    except msgspec.ValidationError as error:
        raise InvalidValue(str(error)) from None


T = TypeVar("T")

MOST: Final = 1_000  # of a list, at once
LARGEST: Final = 2**63 - 1


def described(description: str, **limits: Any) -> Meta:
    """Describe a field for the documentation, and limit its values."""
    return Meta(description=description, **limits)


Limit: TypeAlias = Annotated[int, described("Maximum number of items.", ge=1, le=MOST)]
Number: TypeAlias = Annotated[int, Meta(ge=0, le=LARGEST)]
JobId: TypeAlias = Annotated[int, described("The id of a job.", ge=1, le=LARGEST)]
Duration: TypeAlias = Annotated[str, described("A duration.", examples=["5m"])]
When: TypeAlias = Annotated[
    str,
    described("A time, as 2026-03-05T02:00:00Z, or a duration from now, as 2h.", examples=["2h"]),
]
Since: TypeAlias = Annotated[
    str, described("A time, as 2026-03-05T02:00:00Z, or a duration ago, as 7d.", examples=["7d"])
]
Words: TypeAlias = Annotated[
    str,
    described(
        "Which are meant, in the words of `duly jobs`: "
        "state:failed task:send* queue:mail error~timeout since:2h. Empty: all.",
        examples=["state:failed"],
    ),
]


class Body(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The base of request bodies."""


class Said(msgspec.Struct, frozen=True, kw_only=True):
    """The base of responses."""

    @classmethod
    def of(cls, value: object, **fields: Any) -> Self:
        """Return the response with the attributes of a value, and other ``fields``."""
        names = (name for name in cls.__struct_fields__ if name not in fields)
        return msgspec.convert({name: getattr(value, name) for name in names} | fields, cls)


def said_in(body: msgspec.Struct, *names: str) -> dict[str, Any]:
    """Return the fields that are present in the body."""
    found = {name: getattr(body, name) for name in names}
    return {name: value for name, value in found.items() if value is not UNSET}


def since_in(what: str, text: str | None, *, zone: str | None = None) -> datetime | None:
    """Parse a time, or a duration ago; None if it is not given."""
    return read_past(text, what=what, now=now(), zone=zone) if text and text.strip() else None


def when_in(what: str, text: str | None, *, zone: str | None = None) -> datetime | timedelta | None:
    """Parse a time, or a duration from now; None if it is not given."""
    return read_when(text, what=what, zone=zone) if text and text.strip() else None

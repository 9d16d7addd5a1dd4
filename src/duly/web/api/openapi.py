"""The OpenAPI 3.1 document and the documentation page of the API, made from its endpoints.

The types of bodies and responses become schemas. The role that an endpoint needs is in its
description; other callers get a problem document (RFC 9457).
"""

import json
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any, Final

import msgspec
from starlette.responses import Response

from duly.remote.http import MEDIA_TYPE
from duly.version import __version__
from duly.web.api.capacity import CAPACITY
from duly.web.api.endpoint import PART, QUERIED, Endpoint, Nothing
from duly.web.api.events import EVENTS
from duly.web.api.files import DECLARING
from duly.web.api.jobs import JOBS
from duly.web.api.schedules import SCHEDULES
from duly.web.api.system import ACCESS, ASKING
from duly.web.api.working import WORKING
from duly.web.request import WebRequest
from duly.web.routes import PageRouter, Values, WebServices

VERSION: Final = "/api/v1"
DOCUMENTATION: Final = PageRouter(tenants=True)
_ROUTERS: Final = (JOBS, SCHEDULES, EVENTS, CAPACITY, ASKING, DECLARING, ACCESS, WORKING)
ENDPOINTS: Final[tuple[Endpoint[Any, Any], ...]] = tuple(
    endpoint for router in _ROUTERS for endpoint in router.endpoints
)


LONGEST_KEY: Final = 500
TAGS: Final = {
    "jobs": "Units of work: enqueue, show, retry and cancel them.",
    "schedules": "Rules about time, their tasks, and the history of their runs.",
    "events": "Events, and the jobs that they trigger.",
    "capacity": "Queues, limits and workers.",
    "asking": "Status, checks and settings.",
    "declaring": "Schedules, queues and limits as a file.",
    "access": "Access tokens, audit log and acknowledgements.",
    "work": "For workers in any language.",
}
_REF: Final = "#/components/schemas/{name}"
_VIEW: Final = re.compile(rb'(?<=[a-z])View(_?")')
_NAMES: Final = {
    "id": "The id of a job.",
    "event": "The id of an event.",
    "name": "Its name.",
    "who": "The name of a worker, or its number.",
}
_ABOUT: Final = """\
The HTTP API of duly, a scheduler and job queue. It can do everything that the command can do.

Send an access token with each request: `Authorization: Bearer duly_…`. A viewer can read, an
operator can also act, an admin can also manage tokens. Times are RFC 3339, durations are texts such
as `5m`. Lists have `items` and `next`, the cursor of the next page. Values whose names look like
secrets are hidden. Errors are problem details (RFC 9457): `type`, `title`, `status` and `detail`, a
sentence for people."""


class ProblemBody(msgspec.Struct, frozen=True, kw_only=True):
    """A problem (RFC 9457)."""

    type: str
    title: str
    status: int
    detail: str


def specification(endpoints: Iterable[Endpoint[Any, Any]], address: str) -> dict[str, Any]:
    """Return the OpenAPI document; ``address`` is the URL before all paths."""
    endpoints = list(endpoints)
    types = [ProblemBody, *_types(endpoints)]
    schemas, components = _schemas(types)
    by_type = {id(kind): schema for kind, schema in zip(types, schemas, strict=True)}
    paths: dict[str, dict[str, Any]] = {}
    for one in endpoints:
        path = PART.sub(r"{\1}", one.path)
        paths.setdefault(path, {})[one.method.lower()] = _operation(one, by_type, components)
    queries: list[Any] = [Nothing, *(one.body for one in endpoints if one.method in QUERIED)]
    for kind in queries:
        components.pop(kind.__name__, None)  # its fields are parameters
    tags = {one.tag for one in endpoints}
    return {
        "openapi": "3.1.0",
        "info": {"title": "duly", "version": __version__, "description": _ABOUT},
        "servers": [{"url": address}],
        "security": [{"token": []}],
        "tags": [{"name": tag, "description": TAGS[tag]} for tag in TAGS if tag in tags],
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def parts_of(path: str) -> list[str]:
    """Return the names of the parameters in a path."""
    return PART.findall(path)


def fields_of(kind: type) -> list[dict[str, Any]]:
    """Return the fields of a body or a query: name, whether it is required, its schema."""
    [schema], components = msgspec.json.schema_components([kind], ref_template=_REF)
    found = _resolved(schema, components)
    required = found.get("required", ())
    return [
        {"name": name, "required": name in required, "schema": schema}
        for name, schema in found.get("properties", {}).items()
    ]


def _schemas(types: list[Any]) -> tuple[list[Any], dict[str, Any]]:
    """Return the schemas of types; that of ``JobView`` is called ``Job``."""
    found = msgspec.json.encode(msgspec.json.schema_components(types, ref_template=_REF))
    schemas, components = msgspec.json.decode(_VIEW.sub(rb"\1", found))
    return schemas, components


def _types(endpoints: Iterable[Endpoint[Any, Any]]) -> list[Any]:
    found: dict[int, Any] = {}
    for one in endpoints:
        for kind in (one.body, one.answer):
            if kind is not None:
                found[id(kind)] = kind
    return list(found.values())


def _operation(
    one: Endpoint[Any, Any], schemas: Mapping[int, Any], components: Mapping[str, Any]
) -> dict[str, Any]:
    tenants = "" if one.tenants else " Not available to tokens of one tenant."
    described = " ".join(filter(None, (one.about, f"Needs the {one.role} role.{tenants}")))
    found: dict[str, Any] = {
        "operationId": _name(one),
        "summary": one.summary,
        "description": described,
        "tags": [one.tag],
        "parameters": _parameters(one, schemas, components),
        "responses": _responses(one, schemas),
    }
    if one.method not in QUERIED and one.body is not Nothing:
        content: dict[str, Any] = {"schema": schemas[id(one.body)]}
        if one.example is not None:
            content["example"] = one.example
        required = bool(_resolved(schemas[id(one.body)], components).get("required"))
        found["requestBody"] = {"required": required, "content": {"application/json": content}}
    return found


def _parameters(
    one: Endpoint[Any, Any], schemas: Mapping[int, Any], components: Mapping[str, Any]
) -> list[dict[str, Any]]:
    found = [_in_path(name) for name in parts_of(one.path)]
    if one.method in QUERIED:
        query = _resolved(schemas[id(one.body)], components)
        required = query.get("required", ())
        found += [
            _in_query(name, schema, required=name in required)
            for name, schema in query.get("properties", {}).items()
        ]
    if one.once:
        found.append(_KEY)
    return found


def _in_path(name: str) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string", "minLength": 1, "maxLength": LONGEST_KEY}
    if name == "id":
        schema = {"type": "integer", "minimum": 1, "maximum": 10**18 - 1}
    return {
        "name": name,
        "in": "path",
        "required": True,
        "description": _NAMES.get(name, "Its name."),
        "schema": schema,
    }


def _in_query(name: str, schema: Mapping[str, Any], *, required: bool) -> dict[str, Any]:
    """Return a query parameter; its schema has no null, because a query has none."""
    shown = {word: value for word, value in schema.items() if word != "description"}
    if "anyOf" in shown:
        kinds = [kind for kind in shown["anyOf"] if kind != {"type": "null"}]
        shown = {**shown, "anyOf": kinds} if len(kinds) > 1 else dict(kinds[0])
        if schema.get("default") is not None:
            shown["default"] = schema["default"]
    described = schema.get("description") or shown.pop("description", "")
    found = {"name": name, "in": "query", "required": required, "schema": shown}
    return found | {"description": described} if described else found


def _responses(one: Endpoint[Any, Any], schemas: Mapping[int, Any]) -> dict[str, Any]:
    refused = {
        "description": "Refused; the problem says why.",
        "content": {MEDIA_TYPE: {"schema": schemas[id(ProblemBody)]}},
    }
    if one.answer is None:
        done: dict[str, Any] = {"204": {"description": "Done."}}
    else:
        content = {"application/json": {"schema": schemas[id(one.answer)]}}
        done = {str(one.status): {"description": "Done.", "content": content}}
    return {**done, "4XX": refused, "503": refused}


def _name(one: Endpoint[Any, Any]) -> str:
    """Return ``post_schedules_name_pause``, the function name in generated clients."""
    words = re.findall(r"\w+", PART.sub(r"\1", one.path))
    return "_".join([one.method.lower(), *words])


def _resolved(schema: Mapping[str, Any], components: Mapping[str, Any]) -> Mapping[str, Any]:
    reference = schema.get("$ref")
    if reference is None:
        return schema
    found: Mapping[str, Any] = components[reference.rpartition("/")[2]]
    return found


_KEY: Final = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "description": "Within a day, the same key with the same body returns the same jobs, and "
    "nothing is enqueued twice; the same key with another body is refused.",
    "schema": {"type": "string", "minLength": 1, "maxLength": LONGEST_KEY, "pattern": "^[!-~]+$"},
}


_IN_PATH: Final = {"id": "1002", "who": "web-1"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    name: str
    kind: str
    required: bool
    about: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """An endpoint as people read it."""

    method: str
    path: str
    summary: str
    about: str
    role: str
    tenants: bool
    fields: Sequence[Field]
    asked: str  # "query" or "body"
    status: int
    curl: str
    once: bool

    @property
    def anchor(self) -> str:
        words = (word.strip("{}") for word in self.path.split("/") if word)
        return "-".join((self.method.lower(), *words))


@DOCUMENTATION(f"GET {VERSION}/openapi.json", "viewer")
async def openapi(_: WebServices, request: WebRequest, __: bytes) -> Response:
    return Response(_written(request.root), media_type="application/json")


@DOCUMENTATION.page(f"{VERSION}/docs", "api_docs.html")
async def documentation(_: WebRequest) -> Values:
    return {
        "groups": [(tag, about, _entries(tag)) for tag, about in TAGS.items()],
        "below": VERSION,
    }


def entry_of(one: Endpoint[Any, Any]) -> Entry:
    queried = one.method in QUERIED
    return Entry(
        method=one.method,
        path=VERSION + one.path.replace(":path", ""),
        summary=one.summary,
        about=one.about,
        role=one.role,
        tenants=one.tenants,
        fields=[] if one.body is Nothing else [_field(**field) for field in fields_of(one.body)],
        asked="query" if queried else "body",
        status=204 if one.answer is None else one.status,
        curl=curl_of(one),
        once=one.once,
    )


def curl_of(one: Endpoint[Any, Any]) -> str:
    path = one.path.replace(":path", "")
    for name in parts_of(one.path):
        path = path.replace(f"{{{name}}}", _IN_PATH.get(name, "nightly"))
    words = ["curl", "-H", '"Authorization: Bearer $TOKEN"']
    if one.method != "GET":
        words += ["-X", one.method]
    if one.example is not None:
        words += ["--json", shlex.quote(json.dumps(one.example))]
    return " ".join([*words, f"$DULY{VERSION}{path}"])


@lru_cache(maxsize=8)
def _written(root: str) -> bytes:
    return json.dumps(specification(ENDPOINTS, root + VERSION), ensure_ascii=False).encode()


@cache
def _entries(tag: str) -> Sequence[Entry]:
    return [entry_of(one) for one in ENDPOINTS if one.tag == tag]


def _field(*, name: str, required: bool, schema: Mapping[str, Any]) -> Field:
    return Field(
        name=name, kind=kind_of(schema), required=required, about=schema.get("description", "")
    )


def kind_of(schema: Mapping[str, Any]) -> str:
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(kind_of(one) for one in schema["anyOf"]))
    if "enum" in schema:
        return " · ".join(str(one) for one in schema["enum"])
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if schema.get("type") == "array":
        return f"list of {kind_of(schema.get('items', {}))}"
    return {"string": "text", "integer": "number", "object": "object"}.get(
        str(schema.get("type", "anything")), str(schema.get("type", "anything"))
    )

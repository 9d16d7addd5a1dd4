"""The documentation of the API: the OpenAPI schema, and a page made from it."""

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any, Final

from starlette.responses import Response

from duly.web.api.endpoint import QUERIED, Endpoint, Nothing
from duly.web.api.nouns import ENDPOINTS, VERSION
from duly.web.api.openapi import TAGS, fields_of, parts_of, specification
from duly.web.request import WebRequest
from duly.web.routes import PageRoute, Values, WebRoute, WebServices

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


async def openapi(_: WebServices, request: WebRequest, __: bytes) -> Response:
    return Response(_written(request.root), media_type="application/json")


async def documentation(_: WebServices, __: WebRequest) -> Values:
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
        name=name, kind=_kind(schema), required=required, about=schema.get("description", "")
    )


def _kind(schema: Mapping[str, Any]) -> str:
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(_kind(one) for one in schema["anyOf"]))
    if "enum" in schema:
        return " · ".join(str(one) for one in schema["enum"])
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if schema.get("type") == "array":
        return f"list of {_kind(schema.get('items', {}))}"
    return {"string": "text", "integer": "number", "object": "object"}.get(
        str(schema.get("type", "anything")), str(schema.get("type", "anything"))
    )


OPENAPI: Final = WebRoute(
    method="GET",
    path=f"{VERSION}/openapi.json",
    role="viewer",
    handler=openapi,
    tenants=True,
)
DOCS: Final = PageRoute(
    path=f"{VERSION}/docs", template="api_docs.html", view=documentation, tenants=True
)

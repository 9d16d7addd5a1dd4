"""Numbers and moments that no store has, wherever one is taken: nothing breaks."""

import json
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

from msgspec import inspect

from duly.remote.calls import CALLS, RemoteCall
from duly.web.api import ENDPOINTS
from tests.web.api.conftest import Api

FAR = (-1, -(2**63), -(2**63) - 1, 2**63 - 1, 2**63, 10**30)


def is_number(kind: inspect.Type) -> bool:
    match kind:
        case inspect.Metadata():
            return is_number(kind.type)
        case inspect.UnionType():
            return any(is_number(one) for one in kind.types)
        case _:
            return isinstance(kind, inspect.IntType | inspect.FloatType)


def bodies(kind: type) -> Iterator[dict[str, Any]]:
    info = inspect.type_info(kind)
    fields = info.fields if isinstance(info, inspect.StructType) else ()
    given = {one.encode_name: 1 if is_number(one.type) else "x" for one in fields if one.required}
    for one in fields:
        if is_number(one.type):
            yield from ({**given, one.encode_name: number} for number in FAR)


def test_no_number_in_a_query_or_a_body_breaks_an_endpoint(api: Api) -> None:
    api.post("/jobs", {"task": "send", "args": {"to": "ada"}})
    api.post("/schedules", {"name": "x", "rule": "02:00", "task": "send", "args": {"to": "ada"}})
    for endpoint in ENDPOINTS:
        path = re.sub(r"{(\w+)(:\w+)?}", lambda at: "1" if at[1] == "id" else "x", endpoint.path)
        for body in bodies(endpoint.body):
            if endpoint.method in ("GET", "DELETE"):
                answer = api.ask(endpoint.method, path, params=body)
            else:
                answer = api.ask(endpoint.method, path, body)
            assert answer.status_code < 500, (path, body)


def test_no_number_in_a_path_breaks_an_endpoint(api: Api) -> None:
    for endpoint in ENDPOINTS:
        for number in FAR:
            path = re.sub(r"{(\w+)(:\w+)?}", str(number), endpoint.path)
            assert api.ask(endpoint.method, path).status_code < 500, path


def arguments(call: RemoteCall) -> Iterator[dict[str, Any]]:
    """Every argument that holds numbers or lengths, with each of them below zero."""
    kinds = {name: str(kind) for name, kind in call.parameters.items()}
    given = {name: example(kinds[name]) for name in call.required}
    for name, kind in kinds.items():
        if re.search(r"\bint\b|timedelta", kind):
            several = "Sequence" in kind or "list" in kind
            yield from ({**given, name: [far] if several else far} for far in (-1, -(2**62)))


def example(kind: str) -> object:
    if "Sequence" in kind or "list" in kind:
        return []
    if "datetime" in kind:
        return "2026-01-01T00:00:00+00:00"
    return 1 if re.search(r"\bint\b|timedelta", kind) else {} if "Filter" in kind else "x"


def test_no_number_below_zero_reaches_the_store_from_afar(api: Api) -> None:
    asked = 0
    for call in CALLS.values():
        for body in arguments(call):
            answer = api.ask("POST", f"/store/{call.noun}/{call.verb}", content=json.dumps(body))
            assert answer.status_code == 422, (call.noun, call.verb, body, answer.text)
            asked += 1
    assert asked > 50


def test_moments_at_the_ends_of_time_are_refused(api: Api) -> None:
    for far in ("0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"):
        for rule in (far, f"every 1h start={far}", f"every 1h end={far}"):
            assert api.refused("GET", f"/rules/next?{urlencode({'rule': rule})}")[0] == 422, rule
        asked = json.dumps({"name": "x", "moment": far})
        assert api.ask("POST", "/store/ledger/covering", content=asked).status_code == 422

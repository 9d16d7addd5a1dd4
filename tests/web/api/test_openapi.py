"""The OpenAPI says what the endpoints do, and nobody who is not known reads it."""

import json
import re

import jsonschema_rs
import pytest

from duly.model.access import ROLES
from duly.web.api import ENDPOINTS
from tests.web.api.conftest import Api, Json


@pytest.fixture
def written(api: Api) -> Json:
    return api.get("/openapi.json", role="viewer", tenant="acme")


def test_every_endpoint_is_in_it_with_its_role(written: Json) -> None:
    for one in ENDPOINTS:
        path = re.sub(r":path", "", one.path)
        found = written["paths"][path][one.method.lower()]
        assert f"the {one.role} role" in found["description"]
        assert found["summary"] == one.summary
        names = {parameter["name"] for parameter in found["parameters"]}
        assert set(re.findall(r"{(\w+)}", path)) <= names
    count = sum(len(methods) for methods in written["paths"].values())
    assert count == len(ENDPOINTS)


def test_names_of_operations_are_told_apart(written: Json) -> None:
    names = [one["operationId"] for path in written["paths"].values() for one in path.values()]
    assert len(names) == len(set(names))


def test_whatever_it_refers_to_is_there(written: Json) -> None:
    referred = set(re.findall(r'"#/components/schemas/([^"]+)"', json.dumps(written)))
    assert referred == set(written["components"]["schemas"])
    for schema in written["components"]["schemas"].values():
        assert jsonschema_rs.meta.is_valid(schema)


def test_its_examples_are_what_it_says_that_may_be_sent(written: Json) -> None:
    shown = 0
    for path in written["paths"].values():
        for one in path.values():
            content = one.get("requestBody", {}).get("content", {}).get("application/json", {})
            if "example" in content:
                schema = {**content["schema"], "components": written["components"]}
                jsonschema_rs.validate(schema, content["example"])
                shown += 1
    assert shown > 10


def test_people_read_the_same_on_a_page(api: Api) -> None:
    for role in ROLES:
        page = api.ask("GET", "/docs", role=role)
        assert page.status_code == 200
        assert page.headers["content-type"].startswith("text/html")
        for one in ENDPOINTS:
            assert f"/api/v1{one.path.replace(':path', '')}</code>" in page.text
        assert "<script" not in page.text.partition("<main")[2].partition("</main>")[0]


def test_nobody_unknown_reads_it(api: Api) -> None:
    for path in ("/api/v1/openapi.json", "/api/v1/docs"):
        assert api.site.client.get(path, follow_redirects=False).status_code == 401

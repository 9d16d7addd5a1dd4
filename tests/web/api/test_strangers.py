"""Requests that nobody thought of, made from the OpenAPI: none breaks anything.

The server is a real one, and so is its store. Whether a filter or a rule can be read is no matter
of its schema, so what fits the schema may still be refused; but it is refused as the OpenAPI says.
"""

from collections.abc import Iterator
from typing import Any, TypeAlias

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_schema_conformance,
    status_code_conformance,
)

from duly import Duly
from duly.web.api import ENDPOINTS, VERSION
from duly.web.api.openapi import specification
from tests.infrastructure.served import Served, served

Operation: TypeAlias = Any  # what schemathesis has many types for
Case: TypeAlias = Any

CHECKS = [
    not_a_server_error,
    content_type_conformance,
    negative_data_rejection,
    response_schema_conformance,
    status_code_conformance,
]
# Those of workers wait for work.
OURS = [one for one in ENDPOINTS if one.tag != "work"]
SCHEMA = schemathesis.openapi.from_dict(specification(OURS, VERSION))
OPERATIONS: list[Operation] = [found.ok() for found in SCHEMA.get_all_operations()]  # type: ignore[union-attr]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("strangers")
    app = Duly(str(folder / "duly.db"))
    app.jobs.list()
    app.close()
    with served(folder / "duly.db", folder=folder) as found:
        yield found


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda one: one.label)
@pytest.mark.parametrize(
    "mode",
    [
        schemathesis.GenerationMode.NEGATIVE,
        pytest.param(
            schemathesis.GenerationMode.POSITIVE,
            marks=pytest.mark.thorough("tests of the API ask what the OpenAPI allows"),
        ),
    ],
    ids=lambda mode: mode.value,
)
def test_whatever_is_asked_is_answered_as_the_openapi_says(
    server: Served, operation: Operation, mode: schemathesis.GenerationMode
) -> None:
    headers = {"authorization": f"Bearer {server.secret}"}

    @settings(
        max_examples=5,
        deadline=None,
        database=None,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(operation.as_strategy(generation_mode=mode))
    def answered(case: Case) -> None:
        case.call_and_validate(base_url=f"{server.url}{VERSION}", headers=headers, checks=CHECKS)

    answered()

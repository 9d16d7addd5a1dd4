"""The API of a small shop, and those who ask it. On SQLite, unless ``url`` is another one."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import pytest
from httpx2 import Response

from duly import Duly, JobFailed
from duly.model.access import Role
from tests.app.fixtures import furnished, postgres_url, url
from tests.infrastructure.web import Site, site

__all__ = ["furnished", "postgres_url", "url"]

Json: TypeAlias = Any  # of whatever type it is


@dataclass(frozen=True, slots=True)
class Api:
    """Asks as somebody with a token of the role, of the tenant if there is one."""

    site: Site
    known: dict[tuple[str, str | None], dict[str, str]] = field(default_factory=dict)

    def ask(
        self,
        method: str,
        path: str,
        json: Json = None,
        *,
        role: Role = "admin",
        tenant: str | None = None,
        **words: Any,
    ) -> Response:
        headers = self.headers(role, tenant) | words.pop("headers", {})
        if json is not None:
            words["json"] = json
        return self.site.client.request(method, f"/api/v1{path}", headers=headers, **words)

    def get(self, path: str, **words: Any) -> Json:
        answer = self.ask("GET", path, **words)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def post(self, path: str, json: Json = None, **words: Any) -> Json:
        answer = self.ask("POST", path, json, **words)
        assert answer.status_code in (200, 201), answer.text
        return answer.json()

    def refused(self, method: str, path: str, json: Json = None, **words: Any) -> tuple[int, str]:
        """The status and the sentence of a problem."""
        answer = self.ask(method, path, json, **words)
        assert answer.headers["content-type"] == "application/problem+json", answer.text
        problem = answer.json()
        assert problem.keys() == {"type", "title", "status", "detail"}
        assert problem["status"] == answer.status_code
        return answer.status_code, problem["detail"]

    def stored_args(self, number: int) -> str:
        """The arguments of a job with nothing hidden, as who may change everything is sent them."""
        return str(self.post("/store/jobs/get", {"number": number})["args"])

    def headers(self, role: Role, tenant: str | None = None) -> dict[str, str]:
        who = (role, tenant)
        if who not in self.known:
            self.known[who] = self.site.bearer(f"{role} {tenant or ''}", role, tenant)
        return self.known[who]

    def fail(self, *numbers: int) -> None:
        """Run jobs that end badly."""
        app = self.site.app
        with app.running(scheduler=False):
            for number in numbers:
                with pytest.raises(JobFailed):
                    app.jobs.get(number).result("30s")


@pytest.fixture
def api(url: str) -> Iterator[Api]:
    with site(shop(url)) as found:
        yield Api(found)


def shop(url: str) -> Duly:
    app = Duly(url, zone="Europe/Berlin")

    @app.task(title="mail to {to}")
    def send(to: str, times: int = 1, password: str = "") -> str:
        return to

    @app.task(retry=None)
    def fail(text: str) -> None:
        app.current().log.info("token=hunter2 about to fail")
        raise ValueError(text)

    return app

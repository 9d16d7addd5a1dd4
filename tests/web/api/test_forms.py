"""A button posts a form to the same endpoints, and is answered with a sentence."""

from collections.abc import Mapping

import pytest

from tests.infrastructure.web import ORIGIN
from tests.web.api.conftest import Api

HTMX = {"hx-request": "true"}


@pytest.fixture
def press(api: Api) -> "Press":
    return Press(api)


class Press:
    def __init__(self, api: Api) -> None:
        self.api = api
        self._headers = api.site.sign_in("ada", "operator") | HTMX

    def __call__(
        self, method: str, path: str, form: Mapping[str, str | list[str]] | None = None
    ) -> str:
        answer = self.api.site.client.request(
            method, f"{ORIGIN}/api/v1{path}", data=dict(form or {}), headers=self._headers
        )
        return f"{answer.status_code} {answer.text}"


def test_a_form_says_what_was_done(press: Press) -> None:
    made = press.api.post("/jobs", {"task": "send", "args": {"to": "ada"}})
    assert "Job" in press("POST", f"/jobs/{made['id']}/cancel", {"reason": ""})
    assert press("DELETE", f"/jobs/{made['id']}").startswith("200")
    assert press("DELETE", f"/jobs/{made['id']}").startswith("404")


def test_arguments_are_typed_as_json(press: Press) -> None:
    made = press.api.post("/jobs", {"task": "send", "args": {"to": "ada"}})
    path = f"/jobs/{made['id']}/run-again"
    assert "is enqueued" in press("POST", path, {"args": '{"to": "bob"}'})
    assert press("POST", path, {"args": "{oops"}).startswith("422")
    assert "is enqueued" in press("POST", path, {"args": ""})
    titles = {job["title"] for job in press.api.get("/jobs")["items"]}
    assert titles == {"mail to ada", "mail to bob"}


def test_a_field_that_is_left_empty_is_none(press: Press) -> None:
    press("PUT", "/queues/mail", {"concurrency": "3", "rate": "5/s", "fair": "true"})
    assert "is set" in press("PUT", "/queues/mail", {"concurrency": "", "rate": "5/s"})
    [queue] = press.api.get("/queues")["items"]
    assert (queue["concurrency"], queue["rate"], queue["fair"]) == (None, "5/s", True)


def test_several_of_a_name_are_a_list(press: Press) -> None:
    made = press.api.post("/jobs/batch", {"jobs": [{"task": "x"}] * 3})["ids"]
    assert "Cancelled 2 jobs" in press("POST", "/jobs/cancel", {"ids": [str(n) for n in made[:2]]})
    assert "Cancelled 1 job." in press("POST", "/jobs/cancel", {"ids": str(made[2])})


def test_a_query_may_be_asked_by_a_button(press: Press) -> None:
    press.api.post("/tokens", {"name": "x", "role": "viewer"})
    assert press("GET", "/audit/verify").startswith("403")

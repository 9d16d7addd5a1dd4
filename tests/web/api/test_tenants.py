"""A token of one tenant sees, counts, changes and enqueues what is that tenant's."""

import pytest

from duly.web.api import ENDPOINTS
from tests.web.api.conftest import Api

OF_A_JOB = [one for one in ENDPOINTS if "{id}" in one.path]


def two_jobs(api: Api) -> tuple[int, int]:
    calls = [{"task": "fail", "args": {"text": "x"}, "tenant": who} for who in ("acme", "other")]
    mine, theirs = api.post("/jobs/batch", {"jobs": calls})["ids"]
    return mine, theirs


@pytest.mark.parametrize("one", OF_A_JOB, ids=lambda one: f"{one.method} {one.path}")
def test_anothers_job_is_not_there(api: Api, one: object) -> None:
    mine, theirs = two_jobs(api)
    method, path = one.method, one.path  # type: ignore[attr-defined]
    for number, missing in ((theirs, True), (mine, False)):
        answer = api.ask(method, path.replace("{id}", str(number)), tenant="acme")
        assert (answer.status_code == 404) is missing, answer.text
        assert answer.status_code != 403
    assert api.get(f"/jobs/{theirs}")["state"] == "ready"


def test_lists_and_counts_have_what_is_theirs(api: Api) -> None:
    mine, theirs = two_jobs(api)
    api.fail(mine, theirs)
    assert [job["id"] for job in api.get("/jobs", tenant="acme")["items"]] == [mine]
    assert api.get("/jobs/count", tenant="acme")["count"] == 1
    [group] = api.get("/jobs/failures", tenant="acme")["items"]
    assert group["jobs"] == 1
    assert api.refused("GET", "/jobs?filter=tenant:other", tenant="acme")[0] == 403
    assert api.get("/jobs?filter=tenant:acme", tenant="acme")["items"] != []


def test_what_is_done_to_many_is_done_to_what_is_theirs(api: Api) -> None:
    mine, theirs = two_jobs(api)
    api.fail(mine, theirs)
    for deed in ("retry", "cancel", "remove"):
        assert api.post(f"/jobs/{deed}", {"ids": [theirs]}, tenant="acme")["ids"] == []
        assert api.post(f"/jobs/{deed}", {"filter": ""}, tenant="acme")["ids"] == [mine]
        status = api.ask("POST", f"/jobs/{deed}", {"filter": "tenant:other"}, tenant="acme")
        assert status.status_code == 403
    assert api.get(f"/jobs/{theirs}")["state"] == "failed"


def test_what_they_enqueue_is_theirs_and_moves_nothing_of_others(api: Api) -> None:
    made = api.post("/jobs", {"task": "send", "args": {"to": "a"}}, tenant="acme")
    assert api.get(f"/jobs/{made['id']}")["tenant"] == "acme"
    kept = api.post("/jobs", {"task": "x", "key": "k", "tenant": "other"})
    for body in (
        {"task": "x", "tenant": "other"},
        {"task": "x", "key": "k"},
        {"task": "duly.shell", "args": {"command": "id"}},
    ):
        assert api.refused("POST", "/jobs", body, tenant="acme")[0] == 403
        assert api.refused("POST", "/jobs/batch", {"jobs": [body]}, tenant="acme")[0] == 403
    assert api.get(f"/jobs/{kept['id']}")["tenant"] == "other"
    assert api.get("/jobs/count")["count"] == 2


def test_a_viewer_of_a_tenant_changes_nothing(api: Api) -> None:
    mine, _ = two_jobs(api)
    for path in ("/jobs", "/jobs/cancel", f"/jobs/{mine}/cancel"):
        assert api.refused("POST", path, {}, role="viewer", tenant="acme")[0] == 403


OF_A_SCHEDULE = [one for one in ENDPOINTS if "/schedules/{name" in one.path]
HOURLY = {"rule": "every 1h", "task": "send", "args": {"to": "ada"}}


def two_schedules(api: Api) -> None:
    for who in ("acme", "other"):
        api.post("/schedules", {**HOURLY, "name": f"of {who}", "tenant": who, "tags": [who]})


@pytest.mark.parametrize("one", OF_A_SCHEDULE, ids=lambda one: f"{one.method} {one.path}")
def test_anothers_schedule_is_not_there(api: Api, one: object) -> None:
    two_schedules(api)
    method, path = one.method, one.path  # type: ignore[attr-defined]
    for who, missing in (("other", True), ("acme", False)):
        asked = path.replace("{name:path}", f"of%20{who}")
        answer = api.ask(method, asked, role="admin", tenant="acme")
        assert (answer.status_code == 404) is missing, answer.text
        assert answer.status_code != 403
    assert api.get("/schedules/of%20other")["paused"] is False


def test_a_tenant_lists_adds_and_edits_its_own_schedules(api: Api) -> None:
    two_schedules(api)
    assert [one["name"] for one in api.get("/schedules", tenant="acme")["items"]] == ["of acme"]
    assert api.refused("GET", "/schedules?filter=tenant:other", tenant="acme")[0] == 403
    made = api.post("/schedules", {**HOURLY, "name": "mine", "paused": True}, tenant="acme")
    assert (made["tenant"], made["paused"], made["next_at"]) == ("acme", True, None)
    for body in (
        {**HOURLY, "name": "x", "tenant": "other"},
        {"name": "x", "rule": "every 1h", "task": "duly.shell", "args": {"line": "id"}},
        {"name": "x", "rule": "on a.b", "task": "send", "args": {"to": {"$event": "who"}}},
    ):
        assert api.refused("POST", "/schedules", body, tenant="acme")[0] == 403
    for choice in ("replace", "keep", "error"):
        taken = {**HOURLY, "name": "of other", "if_exists": choice}
        assert api.refused("POST", "/schedules", taken, tenant="acme")[0] == 409
    assert api.refused("PATCH", "/schedules/mine", {"tenant": "other"}, tenant="acme")[0] == 403
    assert api.get("/schedules?filter=tenant:other")["items"][0]["tags"] == ["other"]
    assert api.get("/schedules/of%20other")["tenant"] == "other"

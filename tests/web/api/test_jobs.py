"""Jobs over HTTP are those of the command: enqueued, found, retried, called off, forgotten."""

import pytest

from tests.web.api.conftest import Api


def test_a_job_that_is_enqueued_is_found_with_all_that_was_said(api: Api) -> None:
    body = {"task": "send", "args": {"to": "ada", "password": "hunter2"}, "run_after": "5m"}
    made = api.ask("POST", "/jobs", {**body, "priority": "high", "tags": ["x"], "tenant": "acme"})
    assert made.status_code == 201
    found = api.get(f"/jobs/{made.json()['id']}")
    assert (found["state"], found["title"], found["priority"]) == ("scheduled", "mail to ada", 50)
    assert (found["tags"], found["tenant"], found["submitter"]) == (["x"], "acme", "admin ")
    assert found["args"] == {"to": "ada", "password": "***"}
    assert found["due_at"].endswith("Z")
    assert [job["id"] for job in api.get("/jobs?filter=tenant:acme")["items"]] == [found["id"]]


def test_arguments_are_checked_where_the_task_is_known_and_taken_as_they_are_elsewhere(
    api: Api,
) -> None:
    status, said = api.refused("POST", "/jobs", {"task": "send", "args": {"to": 5}})
    assert (status, "argument `to`: expected str, got int" in said) == (422, True)
    made = api.post("/jobs", {"task": "of another program", "args": {"to": 5}})
    assert api.get(f"/jobs/{made['id']}")["args"] == {"to": 5}


def test_a_batch_is_enqueued_whole_or_not_at_all(api: Api) -> None:
    good, bad = {"task": "send", "args": {"to": "ada"}}, {"task": "send", "args": {}}
    assert api.refused("POST", "/jobs/batch", {"jobs": [good, bad]})[0] == 422
    assert api.get("/jobs/count") == {"count": 0, "more": False}
    made = api.post("/jobs/batch", {"jobs": [good, good]})
    assert len(made["ids"]) == 2
    assert api.get("/jobs/count")["count"] == 2


def test_a_list_is_read_part_by_part_and_ends(api: Api) -> None:
    made = api.post("/jobs/batch", {"jobs": [{"task": "x"}] * 5})
    met: list[int] = []
    after: str | None = ""
    while after is not None:
        part = api.get(f"/jobs?limit=2&after={after}")
        met += [job["id"] for job in part["items"]]
        after = part["next"]
    assert sorted(met) == sorted(made["ids"])
    assert api.refused("GET", "/jobs?limit=1001")[0] == 422
    assert api.refused("GET", "/jobs?after=nonsense")[0] == 422
    assert api.refused("GET", "/jobs?filter=colour:red")[0] == 422


def test_what_failed_alike_is_told_once_and_gets_another_chance(api: Api) -> None:
    calls = [{"task": "fail", "args": {"text": f"row {n}: password=hunter2"}} for n in range(3)]
    made = api.post("/jobs/batch", {"jobs": calls})["ids"]
    api.fail(*made)
    [group] = api.get("/jobs/failures")["items"]
    assert (group["task"], group["jobs"]) == ("fail", 3)
    whole = api.ask("GET", f"/jobs/{made[0]}").text
    assert "ValueError" in whole
    assert "hunter2" not in whole
    assert "hunter2" not in str(api.get(f"/jobs/{made[0]}/logs"))
    [attempt] = api.get(f"/jobs/{made[0]}/attempts")["items"]
    assert (attempt["number"], attempt["outcome"]) == (1, "raised")
    assert "ValueError" in api.get(f"/jobs/{made[0]}/why")["sentence"]
    [first] = api.post("/jobs/retry", {"filter": "state:failed", "first": 1})["ids"]
    second, third = (number for number in made if number != first)
    assert api.post("/jobs/retry", {"ids": [second, first, 5]})["ids"] == [second]
    assert api.get("/jobs/count?filter=state:failed")["count"] == 1
    assert api.post(f"/jobs/{third}/retry")["state"] == "ready"
    assert api.refused("POST", f"/jobs/{third}/retry")[0] == 409


def test_a_retry_names_the_token_that_asked_for_it(api: Api) -> None:
    made = api.post("/jobs/batch", {"jobs": [{"task": "fail", "args": {"text": "x"}}] * 3})["ids"]
    api.fail(*made)
    api.post(f"/jobs/{made[0]}/retry", role="operator")
    api.post("/jobs/retry", {"ids": [made[1]]}, role="operator")
    api.post("/jobs/retry", {"filter": "state:failed"}, role="operator")
    reasons = [api.get(f"/jobs/{number}")["reason"].strip() for number in made]
    assert reasons == ["retried by operator"] * 3


def test_a_job_is_called_off_and_then_forgotten(api: Api) -> None:
    one, two, three = api.post("/jobs/batch", {"jobs": [{"task": "x"}] * 3})["ids"]
    assert api.refused("DELETE", f"/jobs/{one}") == (409, f"job {one} is ready: cancel it first")
    assert api.post(f"/jobs/{one}/cancel", {"reason": "by hand"})["state"] == "cancelled"
    assert api.get(f"/jobs/{one}")["reason"] == "cancelled: by hand"
    assert api.post(f"/jobs/{one}/cancel")["state"] == "cancelled"
    assert api.ask("DELETE", f"/jobs/{one}").status_code == 204
    assert api.refused("GET", f"/jobs/{one}")[0] == 404
    assert api.post("/jobs/cancel", {"ids": [two, one]})["ids"] == [two]
    assert api.post("/jobs/cancel", {"filter": "task:x"})["ids"] == [three]
    assert api.post("/jobs/remove", {"ids": [two]})["ids"] == [two]
    assert api.post("/jobs/remove", {"filter": ""})["ids"] == [three]


def test_nothing_is_done_to_all_because_nobody_said_to_which(api: Api) -> None:
    api.post("/jobs", {"task": "x"})
    for deed in ("cancel", "remove"):
        assert api.refused("POST", f"/jobs/{deed}", {})[0] == 422
    assert api.get("/jobs/count?filter=state:ready")["count"] == 1


def test_a_job_is_run_again_with_its_secrets_or_with_others(api: Api) -> None:
    args = {"to": "ada", "password": "hunter2"}
    made = api.post("/jobs", {"task": "send", "args": args, "queue": "mail", "tenant": "acme"})
    same = api.post(f"/jobs/{made['id']}/run-again")
    shown = {"args": {"to": "ada", "password": "***"}}
    alike = api.post(f"/jobs/{made['id']}/run-again", shown)
    with_defaults = {"args": {"to": "ada", "times": 1, "password": "***"}}  # as a form says it
    filled = api.post(f"/jobs/{made['id']}/run-again", with_defaults)
    for again in (same, alike, filled):
        assert api.stored_args(again["id"]) == '{"to":"ada","password":"hunter2"}'
    typed = {"args": {"to": "bob", "password": "hunter3"}}
    other = api.post(f"/jobs/{made['id']}/run-again", typed)
    found = api.get(f"/jobs/{other['id']}")
    assert (found["title"], found["queue"], found["tenant"]) == ("mail to bob", "mail", "acme")
    assert (found["parent"], found["step"]) == (made["id"], None)
    with api.site.app.running(scheduler=False, queues=["mail"]):
        assert api.site.app.jobs.get(same["id"]).result("30s") == "ada"
        assert api.site.app.jobs.get(other["id"]).result("30s") == "bob"
    assert api.refused("POST", f"/jobs/{made['id']}/run-again", {"args": {"to": 1}})[0] == 422


@pytest.mark.parametrize("changed", [{"to": "eve"}, {"times": 2}, {"password": "x***"}])
def test_a_hidden_secret_is_not_kept_beside_other_arguments(
    api: Api, changed: dict[str, object]
) -> None:
    """Or it could be sent where somebody likes who may not know it."""
    made = api.post("/jobs", {"task": "send", "args": {"to": "ada", "password": "hunter2"}})
    args = {"to": "ada", "password": "***", **changed}
    status, said = api.refused("POST", f"/jobs/{made['id']}/run-again", {"args": args})
    assert (status, "only if no argument is changed" in said) == (422, True)


def test_a_header_that_is_hidden_is_not_sent_to_another_address(api: Api) -> None:
    request = {"url": "https://api.example/pay", "headers": {"x-shop": "hunter2"}, "body": "b"}
    made = api.post("/jobs", {"task": "duly.http", "args": request})
    shown = api.get(f"/jobs/{made['id']}")["args"]
    assert shown["headers"] == {"x-shop": "***"}
    stolen = {"args": {**shown, "url": "https://eve.example/"}}
    assert api.refused("POST", f"/jobs/{made['id']}/run-again", stolen)[0] == 422
    nested = {"args": {**shown, "headers": {"x-shop": "***", "x-other": "1"}}}
    assert api.refused("POST", f"/jobs/{made['id']}/run-again", nested)[0] == 422
    again = api.post(f"/jobs/{made['id']}/run-again", {"args": shown})
    assert '"hunter2"' in api.stored_args(again["id"])
    open_ = {"args": {"url": "https://eve.example/"}}
    assert api.post(f"/jobs/{made['id']}/run-again", open_)


def test_stars_of_ones_own_are_no_hidden_value(api: Api) -> None:
    made = api.post("/jobs", {"task": "mask", "args": {"with": "***", "what": "a"}})
    again = api.post(f"/jobs/{made['id']}/run-again", {"args": {"with": "***", "what": "b"}})
    assert api.stored_args(again["id"]) == '{"with":"***","what":"b"}'


def test_a_number_that_is_none_is_no_job(api: Api) -> None:
    for number in ("x", "-1", "1" * 5_000, "9" * 19, "%00"):
        assert api.ask("GET", f"/jobs/{number}").status_code in (404, 422)


def test_what_no_database_keeps_is_refused(api: Api) -> None:
    for body in (
        {"task": "a\0b"},
        {"task": "x", "args": {"a": "\0"}},
        {"task": "x", "tags": ["\0"]},
    ):
        assert api.refused("POST", "/jobs", body)[0] == 422
    assert api.refused("GET", "/audit?who=%00")[0] == 422
    assert api.refused("GET", "/schedules/%00")[0] == 422
    made = api.post("/jobs", {"task": "x", "args": {"a": r"\u0000"}})
    assert api.get(f"/jobs/{made['id']}")["args"] == {"a": r"\u0000"}


def test_a_field_that_is_not_known_is_refused_by_its_name(api: Api) -> None:
    status, said = api.refused("POST", "/jobs", {"task": "x", "colour": "red"})
    assert (status, "colour" in said) == (422, True)
    assert api.refused("GET", "/jobs?colour=red")[0] == 422


def test_a_job_may_start_at_the_next_moment_of_a_rule(api: Api) -> None:
    body = {"task": "send", "args": {"to": "ada"}, "run_after": "22:00 Europe/Berlin"}
    made = api.post("/jobs", body)
    found = api.get(f"/jobs/{made['id']}")
    assert found["state"] == "scheduled"
    for wrong in ("at noon", "2020-13-45", "5"):
        assert api.refused("POST", "/jobs", {**body, "run_after": wrong})[0] == 422

"""Events over HTTP: said, seen with what came of them, and replayed."""

from collections.abc import Iterator

import pytest

from duly import Duly, Step
from tests.app.waiting import eventually
from tests.infrastructure.web import site
from tests.web.api.conftest import Api

FORM = {"content-type": "application/x-www-form-urlencoded", "hx-request": "true"}


@pytest.fixture
def api(url: str) -> Iterator[Api]:
    app = Duly(url)

    @app.task
    def thank(invoice_id: int, token: str = "") -> int:
        return invoice_id

    @app.flow
    def approved(order: str) -> Step[dict[str, object]]:
        return app.wait_for("order.approved", key="{order}").named("approval")

    app.schedules.add("on invoice.paid", thank, name="thank")  # type: ignore[arg-type]
    with site(app) as found:
        yield Api(found)


def emit(
    api: Api, name: str = "invoice.paid", *, tenant: str | None = None, **payload: object
) -> int:
    made: int = api.post("/events", {"name": name, "payload": payload}, tenant=tenant)["id"]
    return made


def react(api: Api, number: int) -> None:
    app = api.site.app
    with app.running():
        eventually(lambda: app.events.reactions(number), "a reaction")
        for fire in app.events.reactions(number):
            if fire.job_id is not None:
                app.jobs.get(fire.job_id).result("20s")


def test_what_is_said_starts_work_and_says_what_came_of_it(api: Api) -> None:
    number = emit(api, invoice_id=7, token="hunter2")
    react(api, number)
    found = api.get(f"/events/{number}", role="viewer")
    assert (found["name"], found["submitter"]) == ("invoice.paid", "admin ")
    assert found["payload"] == {"invoice_id": 7, "token": "***"}
    [reaction] = found["reactions"]
    assert (reaction["schedule"], reaction["outcome"]) == ("thank", "queued")
    assert reaction["state"] == "succeeded"
    assert api.get(f"/jobs/{reaction['job_id']}")["args"] == {"invoice_id": 7, "token": "***"}
    assert api.get("/events")["items"] == [found]
    [due] = api.get("/schedules/thank/history")["items"]
    assert (due["event"], due["manual"], due["lateness"]) == (number, False, None)


def test_lists_are_chosen_by_name_key_and_time_a_part_at_a_time(api: Api) -> None:
    many = [{"name": f"a.{n}", "key": f"k{n}"} for n in range(3)] + [{"name": "b"}]
    numbers = api.post("/events/batch", {"events": many})["ids"]

    def found(query: str) -> list[int]:
        return sorted(one["id"] for one in api.get(f"/events?{query}")["items"])

    assert found("name=a.*") == numbers[:3]
    assert found("name=b") == numbers[3:]
    assert found("key=k1") == [numbers[1]]
    assert (found("since=1h"), found("until=1h")) == (numbers, [])
    first = api.get("/events?limit=3")
    rest = api.get(f"/events?limit=3&after={first['next']}")
    assert (len(first["items"]), len(rest["items"]), rest["next"]) == (3, 1, None)


def test_a_batch_is_said_as_a_whole_or_not_at_all(api: Api) -> None:
    status, said = api.refused("POST", "/events/batch", {"events": [{"name": "a"}, {"name": "-."}]})
    assert (status, "is not the name of an event" in said) == (422, True)
    assert api.get("/events")["items"] == []


def test_what_is_said_again_under_a_key_is_said_once(api: Api) -> None:
    once = {"idempotency-key": "x"}
    first = api.post("/events", {"name": "a"}, headers=once)
    assert api.post("/events", {"name": "a"}, headers=once) == first
    assert len(api.get("/events")["items"]) == 1
    assert api.refused("POST", "/events", {"name": "b"}, headers=once)[0] == 409


def test_who_said_it_is_in_the_audit_log(api: Api) -> None:
    emit(api, token="hunter2")
    entries = api.get("/audit")["items"]
    [(who, subject)] = [
        (one["who"], one["subject"]) for one in entries if one["action"] == "events.emit"
    ]
    assert (who, subject) == ("admin ", "event:invoice.paid")
    assert "hunter2" not in str(entries)


def test_a_schedule_reacts_to_what_happened_without_it(api: Api) -> None:
    for n in range(2):
        emit(api, invoice_id=n)
    wanted = {"schedule": "thank", "since": "1h"}
    tried = api.post("/events/replay", {**wanted, "dry_run": True})
    assert (tried["events"], tried["jobs"], tried["dry_run"]) == (2, [], True)
    done = api.post("/events/replay", {**wanted, "only": "invoice.*"})
    assert (done["events"], len(done["jobs"])) == (2, 2)
    assert api.post("/events/replay", wanted)["events"] == 0
    for wrong, status in (
        ({"schedule": "nope", "since": "1h"}, 404),
        ({"schedule": "thank", "since": "7"}, 422),
        ({"schedule": "thank", "since": ""}, 422),
    ):
        assert api.refused("POST", "/events/replay", wrong)[0] == status


def test_a_viewer_says_nothing_and_a_tenant_replays_nothing(api: Api) -> None:
    assert api.refused("POST", "/events", {"name": "a"}, role="viewer")[0] == 403
    wanted = {"schedule": "thank", "since": "1h"}
    assert api.refused("POST", "/events/replay", wanted, tenant="acme")[0] == 403


def test_a_tenant_says_and_sees_what_is_theirs(api: Api) -> None:
    emit(api, invoice_id=1)
    theirs = emit(api, invoice_id=2, tenant="other")
    mine = emit(api, invoice_id=3, tenant="acme")
    assert [one["id"] for one in api.get("/events", tenant="acme")["items"]] == [mine]
    assert api.refused("GET", f"/events/{theirs}", tenant="acme")[0] == 404
    assert api.get(f"/events/{mine}", tenant="acme")["tenant"] == "acme"
    react(api, mine)
    [reaction] = api.get(f"/events/{mine}")["reactions"]
    assert api.get(f"/jobs/{reaction['job_id']}", tenant="acme")["tenant"] == "acme"


def test_nobody_of_one_tenant_answers_for_another(api: Api) -> None:
    app = api.site.app
    number: int = api.post("/jobs", {"task": "approved", "args": {"order": "A7"}})["id"]
    body = {"name": "order.approved", "key": "A7", "payload": {"by": "ada"}}
    with app.running():
        eventually(lambda: api.ask("GET", f"/jobs/{number}/flow").status_code == 200, "its steps")
        api.post("/events", {**body, "payload": {"by": "eve"}}, tenant="acme")
        api.post("/events", body)
        assert app.jobs.get(number).result("20s") == {"by": "ada"}


def test_a_button_says_it_with_a_form(api: Api) -> None:
    body = "name=order.approved&key=A+7&payload=%7B%22approved%22%3A+true%7D"
    said = api.ask("POST", "/events", content=body, headers=FORM)
    assert " is emitted." in said.text
    [found] = api.get("/events")["items"]
    assert (found["key"], found["payload"]) == ("A 7", {"approved": True})


@pytest.mark.parametrize(
    ("path", "status", "saying"),
    [
        ("/events/12345678", 404, "there is no event 12345678"),
        ("/events/x", 404, 'there is no event "x": event ids are numbers'),
        ("/events?name=a*b", 422, "a star stands at the end"),
        ("/events?after=x", 422, "not a cursor of events"),
        ("/events?since=7", 422, "give a unit, 7s"),
    ],
)
def test_what_cannot_be_asked_is_refused(api: Api, path: str, status: int, saying: str) -> None:
    found, said = api.refused("GET", path)
    assert (found, saying in said) == (status, True), said


def test_a_schedule_that_an_event_starts_is_added_and_changed_by_name(api: Api) -> None:
    body = {"name": "late", "rule": "on invoice.overdue run_after=1h", "task": "thank"}
    made = api.post("/schedules", body)
    assert made["sentence"] == "When invoice.overdue happens, 1 hour later."
    assert made["args"]["invoice_id"] == {"$event": "invoice_id"}
    changed = api.ask("PATCH", "/schedules/late", {"args": {"invoice_id": 7}}).json()
    assert changed["args"]["invoice_id"] == 7
    other = {**body, "name": "other", "args": {"invoice_id": {"$event": "number"}}}
    assert api.post("/schedules", other)["args"]["invoice_id"] == {"$event": "number"}
    status, said = api.refused("POST", "/schedules", {**body, "name": "x", "args": {"nope": 1}})
    assert (status, 'there is no parameter "nope"' in said) == (422, True)


def test_by_hand_it_is_run_with_what_an_event_would_say(api: Api) -> None:
    status, said = api.refused("POST", "/schedules/thank/run")
    assert (status, "takes its arguments from events" in said) == (409, True)
    made = api.post("/schedules/thank/run", {"args": {"invoice_id": 7}})
    assert api.get(f"/jobs/{made['job_id']}")["args"]["invoice_id"] == 7

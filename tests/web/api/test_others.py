"""Queues, limits, workers, tokens, the audit log, what needs somebody, and files, over HTTP."""

from tests.app.waiting import eventually
from tests.web.api.conftest import Api

SHEET = '[queues.mail]\nrate = "100/m"\n'


def test_a_queue_is_set_paused_and_resumed_and_says_what_is_in_it(api: Api) -> None:
    api.post("/jobs", {"task": "x", "queue": "mail/eu"})
    done = api.ask("PUT", "/queues/mail%2Feu", {"concurrency": 3, "rate": "100/m", "fair": True})
    assert (done.json()["concurrency"], done.json()["rate"]) == (3, "100/m")
    kept = api.ask("PUT", "/queues/mail%2Feu", {"rate": None}).json()
    assert (kept["concurrency"], kept["rate"], kept["fair"]) == (3, None, True)
    assert api.post("/queues/mail%2Feu/pause", {"note": "down"})["paused"] is True
    [found] = api.get("/queues")["items"]
    assert (found["name"], found["note"], found["ready"]) == ("mail/eu", "down", 1)
    assert api.post("/queues/mail%2Feu/resume")["paused"] is False
    assert api.refused("PUT", "/queues/mail", {"rate": "often"})[0] == 422


def test_a_limit_is_set_by_its_template_and_reset(api: Api) -> None:
    done = api.ask("PUT", "/limits/crm:{customer}", {"concurrency": 1})
    assert done.json() == {"name": "crm:{customer}", "concurrency": 1, "rate": None}
    assert "crm:{customer}" in api.get("/export")["text"]
    assert api.ask("DELETE", "/limits/crm:{customer}").status_code == 204
    assert "crm:{customer}" not in api.get("/export")["text"]
    assert api.get("/limits")["items"] == []


def test_a_worker_is_seen_and_steered(api: Api) -> None:
    assert api.refused("POST", "/workers/nobody/drain")[0] == 404
    with api.site.app.running(scheduler=False):
        eventually(lambda: api.get("/workers")["items"] != [], "a worker that lives")
        [found] = api.get("/workers")["items"]
        assert (found["order"], "send" in found["tasks"]) == ("run", True)
        api.post(f"/workers/{found['id']}/drain")
        assert api.get("/workers")["items"][0]["order"] == "drain"
        api.post(f"/workers/{found['id']}/resume")
        api.post(f"/workers/{found['id']}/scale", {"concurrency": 7})
        [told] = api.get("/workers")["items"]
        assert (told["order"], told["slots_ordered"]) == ("run", 7)
        assert api.refused("POST", f"/workers/{found['id']}/scale", {"concurrency": 0})[0] == 422
        api.post(f"/workers/{found['id']}/stop")


def test_a_token_works_until_it_is_revoked_and_the_audit_log_knows(api: Api) -> None:
    made = api.ask("POST", "/tokens", {"name": "ci", "role": "viewer", "expires": "1h"})
    assert made.status_code == 201
    headers = {"authorization": f"Bearer {made.json()['secret']}"}
    client = api.site.client
    assert client.get("/api/v1/status", headers=headers).status_code == 200
    assert client.get("/api/v1/tokens", headers=headers).status_code == 403
    assert "ci" in [token["name"] for token in api.get("/tokens")["items"]]
    assert "secret" not in api.ask("GET", "/tokens").text
    assert api.ask("DELETE", "/tokens/ci").status_code == 204
    assert client.get("/api/v1/status", headers=headers).status_code == 401
    entries = api.get("/audit?subject=token:ci")["items"]
    assert [entry["action"] for entry in entries] == ["tokens.revoke", "tokens.create"]
    first = api.get("/audit?limit=1")
    older = api.get(f"/audit?limit=1&before={first['next']}")
    assert older["items"][0]["number"] == first["items"][0]["number"] - 1
    assert api.get("/audit/verify") == {"ok": True, "broken": None}


def test_what_needs_somebody_is_told_and_acknowledged(api: Api) -> None:
    made = api.post("/jobs", {"task": "fail", "args": {"text": "token=hunter2"}})
    api.fail(made["id"])
    status = api.get("/status", role="viewer")
    assert (status["ok"], "hunter2" in str(status)) == (False, False)
    [need] = status["needs"]
    assert (need["name"], need["job_id"]) == ("fail", made["id"])
    assert api.ask("POST", "/acknowledgements", need["matter"]).status_code == 201
    assert api.get("/status")["ok"] is True
    [known] = api.get("/acknowledgements")["items"]
    assert known["subject"] == "task:fail"
    gone = {"subject": known["subject"], "kind": known["kind"]}
    assert api.ask("DELETE", "/acknowledgements", params=gone).status_code == 204
    assert api.refused("DELETE", "/acknowledgements", params=gone)[0] == 404
    assert api.get("/status")["ok"] is False


def test_the_doctor_and_the_settings_are_for_admins(api: Api) -> None:
    found = api.get("/doctor")
    assert "schema" in [one["check"] for one in found["findings"]]
    assert "url" in [one["name"] for one in api.get("/settings")["items"]]
    for path in ("/doctor", "/settings"):
        assert api.refused("GET", path, role="operator")[0] == 403


def test_a_file_is_planned_applied_and_exported(api: Api) -> None:
    planned = api.post("/plan", {"text": SHEET})
    assert (planned["work"], planned["applied"]) == (True, False)
    assert api.get("/queues")["items"] == []
    assert api.post("/apply", {"text": SHEET})["applied"] is True
    assert api.get("/queues")["items"][0]["rate"] == "100/m"
    assert api.post("/plan", {"text": SHEET})["work"] is False
    assert api.get("/export")["text"] == SHEET
    schedule = '[schedules.x]\nrule = "every 5m"\ntask = "send"\nargs = {to = "ada"}\n'
    assert api.post("/apply", {"text": SHEET + schedule})["counts"]["add"] == 1
    assert api.get("/schedules/x")["title"] == "mail to ada"
    assert api.refused("POST", "/apply", {"text": "[schedules.x"})[0] == 422

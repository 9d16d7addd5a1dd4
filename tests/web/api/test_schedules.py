"""Schedules over HTTP: added, changed, steered and asked about as by the command."""

import asyncio
import json
from datetime import datetime, timedelta
from pathlib import Path
from urllib.parse import urlencode

import pytest
from click.testing import CliRunner

from duly.cli.main import main
from duly.clock import now, sleep
from duly.connection import open_or_make_store
from duly.errors import RuleError
from duly.model.schedule import Plan
from duly.remote.codec import writer
from duly.views.schedules import rule_facts
from tests.factories import plan
from tests.web.api.conftest import Api, Json

NIGHTLY = {"name": "nightly", "rule": "02:00", "task": "send", "args": {"to": "ada"}}


def test_a_schedule_is_added_in_the_zone_of_the_app_and_found(api: Api) -> None:
    made = api.ask("POST", "/schedules", {**NIGHTLY, "start_within": "4h", "tags": ["x"]})
    assert made.status_code == 201
    found = made.json()
    assert (found["zone"], found["sentence"]) == (
        "Europe/Berlin",
        "Every day at 02:00 Europe/Berlin.",
    )
    assert (found["owner"], found["title"], found["tags"]) == ("api", "mail to ada", ["x"])
    assert found["policies"]["start_within"] == "4h"
    assert api.get("/schedules/nightly") == found
    assert api.get("/schedules?filter=nightly")["items"] == [found]
    assert api.refused("POST", "/schedules", NIGHTLY)[0] == 409
    assert (
        api.post("/schedules", {**NIGHTLY, "rule": "03:00", "if_exists": "replace"})["rule"]
        == "03:00"
    )


def test_what_cannot_be_kept_is_refused_with_the_reason(api: Api) -> None:
    for wrong in (
        {"rule": "every blue moon"},
        {"args": {"to": 1}},
        {"zone": "Mars/Olympus"},
        {"start_within": "5"},
        {"overlap": "maybe"},
        {"start": "yesterday"},
    ):
        assert api.refused("POST", "/schedules", NIGHTLY | wrong)[0] == 422
    assert api.get("/schedules")["items"] == []


def test_an_edit_changes_what_is_said_and_nothing_else(api: Api) -> None:
    made = api.post("/schedules", {**NIGHTLY, "start_within": "4h", "jitter": "5m"})
    answer = api.ask("PATCH", "/schedules/nightly", {"rule": "03:00", "start_within": None})
    found = answer.json()
    assert (found["rule"], "start_within" in found["policies"]) == ("03:00", False)
    assert found["policies"]["jitter"] == "5m"
    assert (found["args"], found["queue"]) == (made["args"], made["queue"])
    changed = api.ask("PATCH", "/schedules/nightly", {"args": {"to": "bob"}}).json()
    assert (changed["args"], changed["title"]) == ({"to": "bob"}, "mail to bob")
    assert api.refused("PATCH", "/schedules/nightly", {"args": {"to": 5}})[0] == 422
    [last, *_] = api.get("/schedules/nightly/changes")["items"]
    assert (last["by"], "bob" in last["what"]) == ("admin ", True)
    assert api.refused("PATCH", "/schedules/nobody", {"rule": "03:00"})[0] == 404


def test_a_hidden_secret_that_is_sent_back_stays_if_nothing_else_changes(api: Api) -> None:
    api.post("/schedules", NIGHTLY | {"args": {"to": "ada", "password": "hunter2"}})
    shown = api.get("/schedules/nightly")["args"]
    assert shown == {"to": "ada", "password": "***"}
    answer = api.ask("PATCH", "/schedules/nightly", {"args": shown, "rule": "04:00"})
    assert (answer.status_code, answer.json()["rule"]) == (200, "04:00")
    other = {"args": {"to": "eve", "password": "***"}}
    assert api.refused("PATCH", "/schedules/nightly", other)[0] == 422
    assert api.refused("POST", "/schedules/nightly/run", other)[0] == 422
    assert '"hunter2"' in api.site.app.schedules.get("nightly").args
    run = api.post("/schedules/nightly/run", {"args": shown})
    assert '"hunter2"' in api.stored_args(run["job_id"])


def test_a_schedule_is_paused_until_a_time_and_resumed(api: Api) -> None:
    api.post("/schedules", NIGHTLY)
    paused = api.post("/schedules/nightly/pause", {"until": "2h", "note": "the disk is full"})
    assert (paused["paused"], paused["note"]) == (True, "the disk is full")
    left = datetime.fromisoformat(paused["paused_until"]) - now()
    assert 7_000 < left.total_seconds() <= 7_200
    wall = api.post("/schedules/nightly/pause", {"until": "2099-07-01T09:00"})
    assert wall["paused_until"] == "2099-07-01T07:00:00Z"
    assert api.refused("POST", "/schedules/nightly/pause", {"until": "5"})[0] == 422
    assert api.post("/schedules/nightly/resume")["paused"] is False


def test_next_moments_are_skipped_and_gone_from_the_preview(api: Api) -> None:
    api.post("/schedules", NIGHTLY)
    before = api.get("/schedules/nightly/preview?count=3")
    skipped = api.post("/schedules/nightly/skip-next", {"count": 1})
    assert skipped["moments"] == [before["items"][0]["at"]]
    after = api.get("/schedules/nightly/preview?count=2")
    assert after["items"] == before["items"][1:]
    assert before["items"][0]["local"][10:16] == "T02:00"
    assert api.post("/schedules/nightly/unskip")["moments"] == skipped["moments"]
    assert api.get("/schedules/nightly/preview?count=3")["items"] == before["items"]


def test_a_run_now_is_in_its_history_with_a_job(api: Api) -> None:
    api.post("/schedules", NIGHTLY)
    done = api.post("/schedules/nightly/run")
    assert (done["outcome"], done["manual"]) == ("queued", True)
    [row] = api.get("/schedules/nightly/history?since=1h&limit=1")["items"]
    assert (row["job_id"], row["state"]) == (done["job_id"], "ready")
    assert api.get(f"/jobs/{done['job_id']}")["schedule"] == "nightly"
    other = api.post("/schedules/nightly/run", {"args": {"to": "eve"}})
    assert api.get(f"/jobs/{other['job_id']}")["args"] == {"to": "eve"}
    assert "nightly" in api.get("/schedules/nightly/why")["sentence"]


def test_a_stretch_is_backfilled_once(api: Api) -> None:
    api.post("/schedules", NIGHTLY)
    stretch = {"start": "2026-01-05T00:00:00Z", "end": "2026-01-08T00:00:00Z"}
    tried = api.post("/schedules/nightly/backfill", {**stretch, "dry_run": True})
    assert (len(tried["queued"]), tried["jobs"]) == (3, [])
    done = api.post("/schedules/nightly/backfill", stretch)
    assert done["queued"] == tried["queued"]
    assert len(done["jobs"]) == 3
    again = api.post("/schedules/nightly/backfill", stretch)
    assert (again["queued"], len(again["left_alone"])) == ([], 3)


def test_a_rewind_goes_back_and_takes_an_admin(api: Api) -> None:
    api.post("/schedules", NIGHTLY | {"rule": "every 1h"})
    assert api.refused("POST", "/schedules/nightly/rewind", {}, role="operator")[0] == 403
    assert api.refused("POST", "/schedules/nightly/rewind", {"to": "2100-01-01T00:00Z"})[0] == 422
    found = api.post("/schedules/nightly/rewind", {"to": "2h"})
    assert datetime.fromisoformat(found["next_at"]) < now()
    [last, *_] = api.get("/schedules/nightly/changes")["items"]
    assert (last["by"], last["what"].startswith("rewound to ")) == ("admin ", True)
    found = api.post("/schedules/nightly/rewind")
    assert api.refused("POST", "/schedules/nobody/rewind")[0] == 404


def test_the_command_prints_what_the_api_answers(api: Api, url: str) -> None:
    api.post("/schedules", NIGHTLY | {"title": "password=hunter2", "tags": ["x"]})
    api.post("/schedules/nightly/run")
    api.post("/queues/mail/pause", {"note": "token=hunter2"})

    def said(*words: str) -> Json:
        done = CliRunner().invoke(main, [*words, "-o", "json", "--store", url])
        assert done.exit_code == 0, done.stderr
        assert "hunter2" not in done.stdout
        return json.loads(done.stdout)

    assert said("schedules", "list") == api.get("/schedules")["items"]
    assert said("schedules", "history", "nightly") == api.get("/schedules/nightly/history")["items"]
    shown = said("schedules", "show", "nightly")
    assert shown | api.get("/schedules/nightly") == shown
    assert said("queues", "list") == api.get("/queues")["items"]


def test_a_name_with_a_slash_is_a_name(api: Api) -> None:
    api.post("/schedules", NIGHTLY | {"name": "crm/sync"})
    assert api.get("/schedules/crm%2Fsync")["name"] == "crm/sync"
    assert api.post("/schedules/crm%2Fsync/pause")["paused"] is True
    assert api.get("/schedules/crm%2Fsync/history")["items"] == []
    assert api.ask("DELETE", "/schedules/crm%2Fsync").status_code == 204
    assert api.refused("GET", "/schedules/crm%2Fsync")[0] == 404


def test_only_what_code_declares_is_taken_back(api: Api) -> None:
    api.post("/schedules", NIGHTLY)
    status, said = api.refused("POST", "/schedules/nightly/take-back")
    assert (status, "is not declared in code" in said) == (409, True)


def test_a_rule_is_explained_before_anybody_keeps_it(api: Api) -> None:
    found = api.get("/rules/next?rule=02:30&zone=Europe/Berlin&count=2")
    assert found["sentence"] == "Every day at 02:30 Europe/Berlin."
    assert [one["local"][10:16] for one in found["items"]] == ["T02:30", "T02:30"]
    assert any("does not exist" in note for note in found["notes"])
    assert api.get("/rules/next?rule=spaced 5m")["zone"] is None
    assert api.refused("GET", "/rules/next?rule=bla")[0] == 422
    assert api.refused("GET", "/rules/next")[0] == 422


def test_lists_of_schedules_are_read_part_by_part(api: Api) -> None:
    for name in ("a", "b", "c"):
        api.post("/schedules", NIGHTLY | {"name": name})
    first = api.get("/schedules?limit=2")
    assert ([one["name"] for one in first["items"]], first["next"]) == (["a", "b"], "b")
    rest = api.get("/schedules?limit=2&after=b")
    assert ([one["name"] for one in rest["items"]], rest["next"]) == (["c"], None)


def costly_rule() -> str:
    """9,000 stretches to leap over, each of which asks for 9,000 more."""
    start = now().replace(microsecond=0)
    end = start + timedelta(seconds=9_000)
    blocked = f"(every 1s start={start.isoformat()} count=9000) lasting=1s"
    inner = f"(every 1s - {blocked}) start={start.isoformat()} end={end.isoformat()} lasting=1s"
    return f"every 1s - ({blocked} | {inner})"


def test_a_rule_that_takes_too_long_is_refused_with_the_reason(api: Api) -> None:
    rule = costly_rule()
    asked = f"/rules/next?{urlencode({'rule': rule})}"
    assert "takes too long to evaluate" in api.refused("GET", asked, role="viewer")[1]
    assert api.refused("POST", "/schedules", NIGHTLY | {"rule": rule})[0] == 422
    for page in ("/schedules/new/preview", "/schedules/nightly/edit/preview"):
        api.post("/schedules", NIGHTLY | {"if_exists": "keep"})
        found = api.site.client.get(
            f"{page}?{urlencode({'rule': rule})}", headers=api.headers("admin")
        )
        assert (found.status_code, "takes too long to evaluate" in found.text) == (200, True), page


def test_many_costly_rules_cost_no_more_than_one(api: Api) -> None:
    """Each alone would be read or timed within its budget."""
    jitters = "".join(f") jitter=10m seed={level:x}" for level in range(12))
    slow = [f"{'(' * 12}every {n}h{jitters} start=2026-01-01T00:00Z count=9" for n in range(1, 301)]
    text = "\n".join(
        f'[schedules.s{n}]\nrule = "{rule}"\ntask = "send"' for n, rule in enumerate(slow)
    )
    status, said = api.refused("POST", "/plan", {"text": text})
    assert (status, "takes too long to evaluate" in said) == (422, True)
    made = writer(Plan)(plan("x", "every 1h"))
    plans = [{**made, "name": f"s{n}", "rule": rule} for n, rule in enumerate(slow)]
    assert api.refused("POST", "/store/schedules/add", {"plans": plans})[0] == 422
    costly = [
        {**made, "name": f"c{n}", "rule": f"{costly_rule()} | every {n}h"} for n in range(300)
    ]
    assert api.refused("POST", "/store/schedules/add", {"plans": costly})[0] == 422
    assert api.get("/schedules")["items"] == []


def test_a_rule_from_outside_is_evaluated_beside_the_loop(tmp_path: Path) -> None:
    """The loop goes round while it is evaluated, and not only when it has been."""

    async def ask() -> int:
        store = await open_or_make_store(str(tmp_path / "duly.db"))
        asked = asyncio.create_task(rule_facts(store, costly_rule(), zone=None))
        rounds = 0
        while not asked.done():
            await sleep(0)
            rounds += 1
        with pytest.raises(RuleError, match="takes too long"):
            await asked
        await store.close()
        return rounds

    assert asyncio.run(ask()) > 1_000


def test_a_schedule_is_limited_to_so_many_runs_from_now(api: Api) -> None:
    made = api.post("/schedules", {**NIGHTLY, "rule": "every 1h", "max_runs": 2})
    assert (made["runs_left"], made["finished"], made["policies"]["max_runs"]) == (2, False, 2)
    assert len(api.get("/schedules/nightly/preview")["items"]) == 2
    assert api.refused("PATCH", "/schedules/nightly", {"max_runs": 0})[0] == 422
    answer = api.ask("PATCH", "/schedules/nightly", {"max_runs": None})
    assert answer.json()["runs_left"] is None

"""The pages about schedules, as their readers see them. On SQLite, unless ``url`` is another."""

import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import Enum
from html import unescape
from typing import Any, Literal

import pytest

from duly import Duly
from duly.app import Task
from duly.clock import boottime, now
from duly.errors import RuleError
from duly.model import schedule
from duly.model.access import Role
from duly.model.job import Owner
from duly.model.worker import Profile
from duly.policy.firing import decide
from duly.rules import Rule, Spaced, parse
from duly.store.declarations import WantedSchedule
from duly.store.store import Store
from duly.store.values import ClaimRequest, JobDone
from duly.views import today
from tests.infrastructure.moments import every_hour
from tests.infrastructure.round_trips import record_reads
from tests.infrastructure.web import Site, site

HOSTILE = '"><img src=x onerror=alert(1)>'
HOUR = timedelta(hours=1)


class Speed(Enum):
    SLOW = "slow"
    FAST = "fast"


@dataclass(frozen=True, slots=True)
class Office:
    site: Site
    report: Task[..., None]
    bare: Task[[], None]

    @property
    def app(self) -> Duly:
        return self.site.app

    def raw(self, path: str, *, role: Role = "admin", status: int = 200) -> str:
        headers = self.site.bearer(f"{role} {len(self.app.tokens.list())}", role)
        answer = self.site.client.get(path, headers=headers)
        assert answer.status_code == status, answer.text
        return answer.text

    def page(self, path: str, *, role: Role = "admin", status: int = 200) -> str:
        return unescape(self.raw(path, role=role, status=status))

    def work(self, count: int = 100) -> None:
        """Somebody runs what is ready, and all of it succeeds."""

        async def done(store: Store) -> None:
            profile = Profile(name="w", queues=("default",), signatures={"report": ""}, slots=count)
            worker = await store.work.register(profile, lease=HOUR)
            for queue, shelf, _ in await store.work.ready(["default"], ["report"]):
                request = ClaimRequest(
                    worker=worker.id, queue=queue, shelf=shelf, tasks=["report"], limit=count
                )
                await store.work.claim(request)
            held = await store.work.claimed_by(worker.id)
            await store.work.finish_and_claim([JobDone(one.id, one.fence) for one in held])

        self.app._lazy.call(done, async_name="")


@pytest.fixture
def office(url: str) -> Iterator[Office]:
    app = Duly(url)

    @app.task
    def report(
        *,
        region: Literal["eu", "us"] = "eu",
        rows: int = 10,
        dry: bool = False,
        speed: Speed = Speed.FAST,
        extra: dict[str, int] | None = None,
        api_token: str = "",
    ) -> None: ...

    @app.task
    def bare() -> None: ...

    app.schedules.add("Mon..Fri 02:00 Europe/Berlin", report.bind(api_token="hunter2"), name="it")
    app.schedules.add(every_hour(next_in=30), bare, name="hourly", overlap="queue_all")
    with site(app) as found:
        yield Office(found, report, bare)


def text_of(page: str) -> str:
    """What is read, without marks."""
    return " ".join(re.sub(r"<[^>]+>", " ", page).split())


def test_the_list_says_when_each_is_due_and_in_words_how(office: Office) -> None:
    page = text_of(office.page("/schedules"))
    assert "Next UTC Last Outcome Schedule" in page
    assert "Weekdays at 02:00 Europe/Berlin." in page
    due = {one.name: one.next_at for one in office.app.schedules.list()}
    assert due["hourly"]
    assert due["it"]
    is_first = due["hourly"] < due["it"]  # not so in the half hour before 02:00 in Berlin
    assert (page.index("hourly") < page.index("Weekdays")) == is_first
    assert "fires" not in page


def test_a_filter_finds_and_says_what_it_cannot_read(office: Office) -> None:
    office.app.schedules.pause("it", note="moving house")
    found = text_of(office.page("/schedules?filter=state:paused"))
    assert "moving house" in found
    assert "hourly" not in found
    assert "No schedule matches nothing_like_it" in office.page("/schedules?filter=nothing_like_it")
    assert 'role="alert"' in office.page("/schedules?filter=state:sleepy")


def test_a_list_goes_on_behind_the_last_name(office: Office) -> None:
    for number in range(45):
        office.app.schedules.add("every 1h", office.bare, name=f"n{number:02}")
    first = office.page("/schedules?filter=n")
    assert "Next by name" in first
    after = re.search(r'after=([^"&]+)"', first)
    assert after is not None
    second = office.page(f"/schedules?filter=n&after={after[1]}")
    assert "n44" in second
    assert "n00" not in second
    assert "Next by name" not in second


def test_an_empty_list_teaches_a_step(url: str) -> None:
    with site(Duly(url)) as found:
        page = found.client.get("/schedules", headers=found.bearer("ada", "viewer")).text
    assert '@duly.schedule("every 10s")' in unescape(page)


def test_a_schedule_opens_with_its_sentence(office: Office) -> None:
    page = text_of(office.page("/schedules/it"))
    assert (
        "Weekdays at 02:00 Europe/Berlin; is skipped while the previous run has not ended; "
        "missed runs are caught up once." in page
    )
    assert "First run:" in page


def test_a_pause_says_who_until_when_and_why(office: Office) -> None:
    office.app.schedules.pause("it", until="2h", note="moving house")
    page = text_of(office.page("/schedules/it"))
    assert "Paused" in page
    assert "moving house" in page
    assert "Runs that are due meanwhile are skipped." in page
    assert "Resume" in page


def test_history_is_a_row_for_each_moment_with_lateness_and_length(office: Office) -> None:
    office.app.schedules.run("hourly")
    page = office.page("/schedules/hourly")
    head = text_of(page[page.index("<thead>") : page.index("</thead>")])
    assert head == "Due Outcome Why Lateness Took Job"
    assert len(re.findall(r'id="moment-\d+"', page)) == 1
    assert "ready" in page


def test_old_history_is_behind_a_link(office: Office) -> None:
    end = now().replace(minute=0, second=0, microsecond=0)
    office.app.schedules.backfill("hourly", end - 40 * HOUR, end)
    first = office.page("/schedules/hourly")
    older = re.search(r'href="(/schedules/hourly\?before=[^"]+)"', first)
    assert older is not None
    second = office.page(older[1])
    seen = [set(re.findall(r'id="(moment-\d+)"', page)) for page in (first, second)]
    assert len(seen[0]) == 25
    assert len(seen[0] | seen[1]) == 40


def test_what_ran_is_drawn_by_the_hour_it_was_due(office: Office) -> None:
    office.app.schedules.add("every 1h", office.report, name="r", overlap="allow")
    office.app.schedules.run("r")
    office.work()
    page = office.page("/schedules/r")
    assert "succeeded" in page
    assert "Lateness" in page


def test_arguments_are_shown_without_their_secrets(office: Office) -> None:
    for path in ("/schedules/it", "/schedules/it/run", "/schedules/it/edit", "/schedules"):
        assert "hunter2" not in office.raw(path)
    assert "***" in office.page("/schedules/it")


def test_a_run_has_a_form_made_from_the_types(office: Office) -> None:
    form = office.page("/schedules/it/run")
    assert re.search(r'<select name="args.region"[^>]*>.*value=""eu"" selected', form)
    assert 'type="number" name="args.rows" value="10"' in form
    assert 'type="checkbox" name="args.dry"' in form
    assert 'value=""fast"" selected' in form
    assert '<textarea name="args.extra"' in form
    assert 'name="args.api_token" value="***"' in form


def test_what_takes_nothing_runs_at_once(office: Office) -> None:
    page = office.raw("/schedules/hourly")
    assert 'hx-post="/api/v1/schedules/hourly/run"' in page
    assert 'hx-get="/schedules/hourly/run"' not in page


def test_a_viewer_sees_what_they_may_not_press(office: Office) -> None:
    page = office.raw("/schedules/it", role="viewer")
    assert "hx-post" not in page
    assert "needs the operator role" in page
    for sheet in ("run", "pause", "edit", "backfill", "edit/preview", "backfill/preview"):
        office.raw(f"/schedules/it/{sheet}", role="viewer", status=403)
    office.raw("/schedules/new", role="viewer", status=403)


def test_what_is_typed_comes_back_as_a_sentence_and_moments(office: Office) -> None:
    query = "?rule=Sun+02:30&zone=Europe/Berlin&here=America/New_York&start_within=4h"
    page = office.page(f"/schedules/it/edit/preview{query}")
    text = text_of(page)
    assert "Sundays at 02:30 Europe/Berlin." in text
    assert "must start within 4 hours" in text
    assert "1 run in the next week" in text
    assert "does not exist in Europe/Berlin: will run at 03:00" in text
    assert [text_of(one) for one in re.findall(r'<th scope="col">.*?</th>', page)] == [
        "Europe/Berlin",
        "America/New_York, here",
        "UTC",
    ]
    assert len(re.findall(r"<tr><td>", page)) == 10
    assert "Save 3 changes" in text
    assert "Mon..Fri 02:00 Europe/Berlin → Sun 02:30" in text


def test_only_what_differs_is_saved_and_nothing_takes_a_choice_away(office: Office) -> None:
    office.app.schedules.edit("it", start_within="4h")
    page = office.page("/schedules/it/edit/preview?start_within=&overlap=skip&queue=default")
    [body] = re.findall(r'data-body="(.*?)" hx-patch', page)
    assert json.loads(body) == {"start_within": None}
    patched = office.site.client.request(
        "PATCH",
        "/api/v1/schedules/it",
        content=body,
        headers=office.site.bearer("patcher", "operator") | {"content-type": "application/json"},
    )
    assert patched.status_code == 200, patched.text
    assert office.app.schedules.get("it").plan.policies.start_within is None


def test_what_cannot_be_read_is_said_in_its_own_words(office: Office) -> None:
    page = office.page("/schedules/it/edit/preview?rule=Mon..Frii+02:00")
    assert "did you mean Fri?" in page
    assert "hx-patch" not in page
    assert "Atlantis" in office.page("/schedules/it/edit/preview?rule=02:00&zone=Atlantis")


def test_a_new_schedule_shows_its_rule_before_it_has_a_name(office: Office) -> None:
    form = office.page("/schedules/new")
    assert 'value="duly.shell"' in form
    assert 'value="report"' in form
    assert '<label class="check"><input type="checkbox" name="paused"' in form  # beside its words
    early = text_of(office.page("/schedules/new/preview?rule=02:00+Europe/Berlin"))
    assert "Every day at 02:00 Europe/Berlin." in early
    assert "Say a name and a task." in early
    late = office.page("/schedules/new/preview?rule=every+5m&name=n&task=report&priority=7")
    [body] = re.findall(r'data-body="(.*?)" data-beside', late)
    assert json.loads(body) == {"name": "n", "task": "report", "rule": "every 5m", "priority": 7}


def test_a_backfill_says_what_it_would_do_and_does_nothing(office: Office) -> None:
    assert 'type="datetime-local"' in office.page("/schedules/hourly/backfill")
    day = now().astimezone(UTC).date() - timedelta(days=1)
    query = f"?start={day}T00:00&end={day}T03:00"
    page = office.page(f"/schedules/hourly/backfill/preview{query}")
    assert "3 runs would be queued" in text_of(page)
    [body] = re.findall(r'data-body="(.*?)" hx-post', page)
    assert datetime.fromisoformat(json.loads(body)["start"]) == datetime(
        day.year, day.month, day.day, tzinfo=UTC
    )
    assert office.app.schedules.history("hourly") == []
    wrong = office.page(f"/schedules/hourly/backfill/preview?start={day}T03:00&end={day}T00:00")
    assert 'role="alert"' in wrong


def test_the_policies_are_drawn_as_they_are_lived(office: Office) -> None:
    page = text_of(office.page("/schedules/hourly/policies"))
    assert 'missed="latest"' in page
    assert "merged" in page
    office.app.schedules.edit("hourly", missed="skip")
    other = text_of(office.page("/schedules/hourly/policies"))
    assert 'missed="skip"' in other
    assert "merged" not in other


def test_the_timeline_has_what_ran_and_what_is_to_come(office: Office) -> None:
    office.app.schedules.add("every 10m", office.report, name="r")
    fire = office.app.schedules.run("r")
    office.work()
    page = office.page("/schedules/timeline?schedule=r&span=1h")
    assert f'href="/jobs/{fire.job_id}"' in page
    assert "is due at" in page
    assert "hourly" not in page[page.index("<main") :]
    assert f'href="/jobs/{fire.job_id}"' in office.page("/schedules/timeline?by=worker&span=1h")
    assert "default" in office.page("/schedules/timeline?by=queue")
    office.page("/schedules/timeline?span=nonsense")


def test_nothing_that_people_write_becomes_a_part_of_the_page(office: Office) -> None:
    call = office.report.using(title=HOSTILE, tags=(HOSTILE,))
    office.app.schedules.add("every 10m", call, name=HOSTILE)
    office.app.schedules.pause(HOSTILE, note=HOSTILE)
    office.app.schedules.resume(HOSTILE)
    office.app.schedules.run(HOSTILE)
    name = "%22%3E%3Cimg%20src%3Dx%20onerror%3Dalert(1)%3E"
    for path in ("", f"/{name}", "/timeline", *(f"/{name}/{one}" for one in SHEETS)):
        page = office.raw(f"/schedules{path}")
        assert "<img src=x" not in page, path


SHEETS = ("run", "pause", "edit", "backfill", "policies", "edit/preview?rule=%3Cimg+src%3Dx%3E")


def test_a_rule_that_this_version_cannot_read_stops_no_page(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    office.app.schedules.add("every 77m", office.bare, name="odd")
    office.app.schedules.run("odd")

    def of_before(text: str, **words: Any) -> Rule | Spaced:
        if text == "every 77m":
            raise RuleError("nobody has heard of 77m here")
        return parse(text, **words)

    monkeypatch.setattr(schedule, "parse", of_before)
    schedule._timings.cache_clear()
    paths = ("/", "/schedules", "/schedules/odd", "/schedules/timeline", "/schedules/odd/edit")
    said = {path: "nobody has heard of 77m" in office.page(path) for path in paths}
    assert said == {path: path in ("/schedules", "/schedules/odd") for path in paths}
    office.page("/schedules/timeline?schedule=odd")


def test_a_schedule_that_is_not_there_is_not_found(office: Office) -> None:
    assert "nobody" in office.page("/schedules/nobody", status=404)


def test_a_removed_schedule_leads_to_the_list_and_comes_back_with_one_step(office: Office) -> None:
    async def declare(store: Store) -> None:
        there = await store.schedules.get("it")
        declared = replace(there.plan, name="in_code", owner=Owner.CODE)
        await store.schedules.declare("shop:duly", "one", [WantedSchedule(declared)])

    office.app._lazy.call(declare, async_name="")
    assert "stays removed until that code changes" in office.page("/schedules/in_code")
    headers = office.site.sign_in("ada", "operator") | {"hx-request": "true"}
    client = office.site.client
    gone = client.delete("/api/v1/schedules/in_code", headers=headers)
    assert gone.headers["hx-redirect"] == "/schedules"
    page = office.page("/schedules")
    assert "in_code was removed by ada" in text_of(page)
    assert "/api/v1/schedules/in_code/take-back" in page
    assert "Bring it back" in office.page("/")
    back = client.post("/api/v1/schedules/in_code/take-back", headers=headers)
    assert back.status_code == 200
    assert "was removed" not in office.page("/schedules")
    assert "Weekdays at 02:00" in office.page("/schedules/in_code")


def fire_two_hours_ahead(office: Office, name: str) -> None:
    """Fire as a scheduler does while the database's clock is two hours ahead."""

    async def fired(store: Store) -> None:
        await store.schedules.rewind(name, to=now() - HOUR)
        await store.ledger.fire(
            lambda facts, at: decide(facts, at + 2 * HOUR), limit=10, trust=lambda _: True
        )

    office.app._lazy.call(fired, async_name="")


def test_a_schedule_that_a_wrong_clock_left_ahead_is_rewound_on_its_page(office: Office) -> None:
    assert "rewind" not in office.page("/schedules/hourly")
    fire_two_hours_ahead(office, "hourly")
    page = office.page("/schedules/hourly")
    assert "It fires nothing until" in text_of(page)
    [asked] = re.findall(r'hx-confirm="(Rewind from [^"]+)"', page)
    until = now() + 2 * HOUR
    assert f"{until:%H:%M}" in asked or f"{until - timedelta(minutes=1):%H:%M}" in asked
    assert asked.endswith(" to now? Runs that were fired are not fired again.")
    headers = office.site.sign_in("ada", "admin") | {"hx-request": "true"}
    answer = office.site.client.post("/api/v1/schedules/hourly/rewind", headers=headers)
    assert "hourly is rewound." in answer.text
    after = office.page("/schedules/hourly")
    assert "It fires nothing until" not in text_of(after)
    assert "rewound to" in after


def test_the_page_of_a_schedule_reads_the_store_once(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    office.app.schedules.run("hourly")
    office.page("/schedules/hourly")
    trips = record_reads(monkeypatch)
    office.page("/schedules/hourly")
    about_it = [trip for trip in trips if "list_fires" in trip or "named_schedules" in trip]
    assert len(about_it) == 1
    [statements] = about_it
    assert len(statements) == len(set(statements))
    assert [name for trip in trips for name in trip].count("list_changes") == 1


@pytest.mark.parametrize("path", ["/", "/schedules"])
def test_a_page_with_several_schedules_has_one_zone_and_names_it(office: Office, path: str) -> None:
    office.app.schedules.add("12:00 Asia/Tokyo", office.bare, name="tokyo")
    office.app.schedules.add("12:00 America/New_York", office.bare, name="new_york")
    page = office.page(path)
    shown = re.findall(r'<time[^>]* title="[^"]*\d (\S+) · \d{4}', page)
    assert shown
    assert set(shown) == {"UTC"}
    assert "Next UTC" in text_of(page)
    assert "Asia/Tokyo · " in office.page("/schedules/tokyo")


def test_today_asks_no_statement_twice(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    """But for the quarters of an hour, which are remembered one by one."""
    office.page("/")
    trips = record_reads(monkeypatch)
    later = boottime() + 60  # nothing but the quarters of an hour is remembered for so long
    monkeypatch.setattr(today, "boottime", lambda: later)
    office.page("/?again")
    asked = Counter(name for trip in trips for name in trip)
    quarters = asked.pop("count_moments_by_hour")
    assert [name for name, times in asked.items() if times > 1] == []
    sign_in = {"list_tokens", "now", "token_of_hash"}
    assert len([trip for trip in trips if not sign_in & set(trip)]) <= 12 + quarters


def test_the_page_and_the_form_say_how_many_runs_are_left(office: Office) -> None:
    office.app.schedules.add(every_hour(next_in=30), office.bare, name="thrice", max_runs=3)
    said = text_of(office.page("/schedules/thrice"))
    assert "at most 3 runs." in said
    assert "3 of 3 runs left." in said
    assert 'name="max_runs" value="3"' in office.page("/schedules/thrice/edit")
    page = office.page("/schedules/thrice/edit/preview?max_runs=")
    [body] = re.findall(r'data-body="(.*?)" hx-patch', page)
    assert json.loads(body) == {"max_runs": None}
    assert "The next 2 runs" in office.page("/schedules/thrice/edit/preview?max_runs=2")
    refused = text_of(office.page("/schedules/thrice/edit/preview?max_runs=few"))
    assert "a whole number from 1" in refused


def test_a_tenant_sees_the_pages_of_its_own_schedules_and_no_others(office: Office) -> None:
    for who in ("acme", "other"):
        office.app.schedules.add("every 1h", office.bare, name=f"of {who}", tenant=who)
    headers = office.site.bearer("theirs", "admin", tenant="acme")
    seen = office.site.client.get("/schedules", headers=headers).text
    assert "of acme" in seen
    assert "of other" not in seen
    assert "hourly" not in seen
    for page in ("", "/policies", "/run", "/edit", "/edit/preview"):
        paths = [f"/schedules/{name}{page}" for name in ("of%20acme", "of%20other", "hourly")]
        found = [office.site.client.get(path, headers=headers).status_code for path in paths]
        assert found == [200, 404, 404], page

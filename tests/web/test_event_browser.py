"""Events in a real browser, beside a real worker: somebody answers, and what reacts is seen to."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.app.waiting import eventually
from tests.infrastructure.served import Served, served
from tests.web.test_flow_browser import check_with_axe, enqueue

TASKS = """
from duly import Duly, Step

duly = Duly("duly.db")


@duly.on("doc.changed", key="doc:{doc_id}")
@duly.task
async def reindex(doc_id: int, mode: str = "full") -> str:
    return f"{doc_id} {mode}"


@duly.task
async def move(place: str) -> str:
    return place


@duly.task
async def ship(order: str) -> str:
    return order


@duly.flow
def approved(order: str) -> Step[str]:
    asked = duly.wait_for("order.approved", key="{order}").named("approval")
    done = ship.step(order)
    asked >> done
    return done


if __name__ == "__main__":
    duly.run()
"""


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Served]:
    (tmp_path / "tasks.py").write_text(TASKS)
    with (
        served(tmp_path / "duly.db", "tasks.py", folder=tmp_path) as found,
        subprocess.Popen(
            [sys.executable, "tasks.py"], cwd=tmp_path, stderr=subprocess.DEVNULL
        ) as process,
    ):
        try:
            path = "/api/v1/schedules/reindex"
            eventually(lambda: found.ask("GET", path).status == 200, "what the code declares")
            yield found
        finally:
            process.kill()


@pytest.fixture
def browser_page(here: Served, page: Page) -> Iterator[Page]:
    wrong: list[str] = []
    page.on("console", lambda said: wrong.append(said.text) if said.type == "error" else None)
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.goto(f"{here.url}/login?token={here.secret}")
    yield page
    assert wrong == []


def say(page: Page, name: str, payload: str) -> None:
    """With the form that the page has for it."""
    page.get_by_role("button", name="Emit…").click()
    page.get_by_label("Name").fill(name)
    page.get_by_label("Payload, as JSON").fill(payload)
    page.get_by_role("button", name="Emit", exact=True).click()
    expect(page.locator(".toast")).to_contain_text(" is emitted.")
    page.locator(".toast").click()


def test_a_flow_waits_somebody_answers_and_it_goes_on(here: Served, browser_page: Page) -> None:
    number = enqueue(here, "approved", order="A 7")
    browser_page.goto(f"{here.url}/jobs/{number}")
    expect(browser_page.locator("svg .at-awaiting .name")).to_have_text("approval")
    browser_page.locator("#step-1").get_by_role("button", name="Answer…").click()
    sheet = browser_page.locator("#sheet")
    sheet.get_by_role("button", name="Answer", exact=True).click()
    expect(browser_page.locator(".toast")).to_contain_text(" is emitted.")
    expect(sheet).to_be_hidden()
    # Nobody has loaded the page again.
    expect(browser_page.locator("svg .at-succeeded")).to_have_count(2)
    expect(browser_page.locator(".crumb .state")).to_contain_text("succeeded")
    browser_page.goto(f"{here.url}/schedules/events")
    browser_page.get_by_role("link", name="order.approved").click()
    browser_page.get_by_role("link", name="Steps that waited for it").click()
    expect(browser_page.locator("tr[data-row]")).to_have_count(1)
    expect(browser_page.locator("tr[data-row]")).to_contain_text("wait")


def test_what_is_said_on_the_page_is_seen_to_start_work(here: Served, browser_page: Page) -> None:
    browser_page.goto(f"{here.url}/schedules")
    browser_page.get_by_role("link", name="Events").click()
    starting = browser_page.locator("#starting-reindex")
    expect(starting).to_contain_text("When doc.changed happens.")
    expect(starting).to_contain_text("not yet")
    expect(browser_page.locator(".empty")).to_contain_text('duly.emit("doc.changed"')
    check_with_axe(browser_page)
    say(browser_page, "doc.changed", '{"doc_id": 7, "token": "hunter2"}')
    row = browser_page.locator(".events tr[data-row]")
    expect(row).to_contain_text("succeeded reindex")
    expect(row).to_contain_text('{"doc_id": 7, "token": "***"}')
    expect(starting).to_contain_text("1 in a day")
    check_with_axe(browser_page)
    row.get_by_role("link", name="doc.changed").click()
    expect(browser_page.locator("h1")).to_contain_text("doc.changed")
    expect(browser_page.locator(".sentence")).to_contain_text(": 1 job")
    assert "hunter2" not in browser_page.content()
    check_with_axe(browser_page)


@pytest.mark.thorough("a browser and a server for another look at the same page")
def test_the_page_of_such_a_schedule_speaks_of_events(here: Served, browser_page: Page) -> None:
    browser_page.goto(f"{here.url}/schedules/reindex")
    expect(browser_page.locator(".sentence")).to_have_text("When doc.changed happens.")
    expect(browser_page.locator(".empty")).to_contain_text('duly.emit("doc.changed", {"doc_id": …')
    expect(browser_page.get_by_role("button", name="Replay…")).to_be_visible()
    for absent in ("Backfill", "Skip next"):
        expect(browser_page.get_by_role("button", name=absent)).to_have_count(0)
    for absent in ("Policies", "Lateness", "Nothing is due"):
        expect(browser_page.get_by_text(absent)).to_have_count(0)
    check_with_axe(browser_page)
    browser_page.get_by_role("button", name="Run now").click()
    expect(browser_page.locator("#sheet")).to_contain_text(
        "enter the arguments that the event would give"
    )
    browser_page.get_by_label("doc_id (needed)").fill("7")
    browser_page.locator("#sheet").get_by_role("button", name="Run now").click()
    expect(browser_page.locator(".toast")).to_contain_text("is enqueued")


@pytest.mark.thorough("a browser and a server for another look at the same page")
def test_its_rule_is_edited_with_the_sentence_and_without_moments(
    here: Served, browser_page: Page
) -> None:
    browser_page.goto(f"{here.url}/schedules/reindex")
    browser_page.get_by_role("button", name="Edit").click()
    browser_page.get_by_label("When").fill('on doc.* key="doc:{doc_id}" debounce=30s')
    draft = browser_page.locator("#draft")
    expect(draft).to_contain_text(
        'When anything below "doc." happens, once it has been quiet for 30 seconds.'
    )
    expect(draft).to_contain_text("As often as it happens.")
    expect(draft.locator("table")).to_have_count(0)
    expect(browser_page.get_by_label("Missed runs")).to_have_count(0)
    check_with_axe(browser_page)
    draft.get_by_role("button", name="Save 1 change").click()
    expect(browser_page.locator("main .sentence")).to_contain_text('anything below "doc."')


def test_what_happened_before_a_schedule_is_replayed_once(here: Served, browser_page: Page) -> None:
    browser_page.goto(f"{here.url}/schedules/events")
    say(browser_page, "doc.gone", '{"place": "here"}')
    body = json.dumps({"name": "late", "rule": "on doc.gone", "task": "move"})
    assert here.ask("POST", "/api/v1/schedules", body).status == 201
    browser_page.goto(f"{here.url}/schedules/late")
    browser_page.get_by_role("button", name="Replay…").click()
    preview = browser_page.locator("#replay-preview")
    expect(preview).to_contain_text("It would react to 1 event.")
    check_with_axe(browser_page)
    preview.get_by_role("button", name="Replay 1 event").click()
    expect(browser_page.locator(".toast")).to_contain_text("late has reacted to 1 event.")
    row = browser_page.locator("#history-title ~ .table tr[data-row]")
    expect(row).to_contain_text("succeeded")  # nobody has loaded the page again
    expect(row.get_by_role("link", name="doc.gone")).to_be_visible()
    browser_page.get_by_role("button", name="Replay…").click()
    expect(preview).to_contain_text("it has reacted to all matching events")


@pytest.mark.thorough("a browser and a server for another look at the same page")
def test_on_a_phone_nothing_is_wider_than_it(here: Served, browser_page: Page) -> None:
    here.ask("POST", "/api/v1/events", '{"name": "doc.changed", "payload": {"doc_id": 7}}')
    browser_page.set_viewport_size({"width": 360, "height": 740})
    for path in ("/schedules/events", "/schedules/reindex"):
        browser_page.goto(f"{here.url}{path}")
        expect(browser_page.get_by_text("doc.changed").first).to_be_visible()
        assert browser_page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        check_with_axe(browser_page)

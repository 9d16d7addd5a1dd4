"""A flow in a real browser, beside a real worker: it is seen to go on, and can be answered."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from tests.infrastructure.served import Served, served

SCRIPT = "<script>alert(1)</script>"
TASKS = f"""
from pathlib import Path
from duly import Duly, Step
from duly.clock import sleep

duly = Duly("duly.db")


async def until(name):
    while not Path(name).exists():
        await sleep(0.05)


@duly.schedule("every 1000h")
@duly.task
async def extract() -> list[int]:
    return [1, 2, 3]


@duly.task
async def transform(item: int) -> int:
    if item > 1:
        await until("transform")
    return item


@duly.task(retry=None)
async def enrich() -> None:
    await until("enrich")
    raise ValueError("{SCRIPT}")


@duly.task
async def load(items: list[int]) -> int:
    return sum(items)


@duly.flow
def etl() -> Step[int]:
    rows = extract.step()
    parts = transform.map(rows.result)
    loaded = load.step(parts.result)
    return loaded


@duly.flow
def broken() -> None:
    first = extract.step()
    second = enrich.step().named("{SCRIPT}")
    first >> second >> load.step([]).named("last")


@duly.flow
def approved(order: str) -> Step[int]:
    asked = duly.wait_for("order.approved", key="{{order}}").named("approval")
    done = load.step([7])
    asked >> done
    return done


if __name__ == "__main__":
    duly.run()
"""


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Served]:
    (tmp_path / "tasks.py").write_text(TASKS)
    with (
        served(tmp_path / "duly.db", folder=tmp_path) as found,
        subprocess.Popen(
            [sys.executable, "tasks.py"], cwd=tmp_path, stderr=subprocess.DEVNULL
        ) as process,
    ):
        try:
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


def enqueue(here: Served, task: str, **args: str) -> int:
    body = json.dumps({"task": task, "args": args})
    answer = here.ask("POST", "/api/v1/jobs", body, content_type="application/json")
    return int(json.loads(answer.body)["id"])


def check_with_axe(page: Page) -> None:
    found = Axe().run(page)
    assert found.violations_count == 0, found.generate_report()


def test_a_flow_is_seen_to_go_on(here: Served, browser_page: Page, tmp_path: Path) -> None:
    number = enqueue(here, "etl")
    browser_page.goto(f"{here.url}/jobs/{number}")
    graph = browser_page.locator("svg.flow-graph")
    expect(graph.locator(".step")).to_have_count(3)
    expect(graph.locator(".at-running .name")).to_have_text("transform")
    expect(graph.locator(".at-running .far")).to_have_text("1/3")
    expect(browser_page.locator("#step-3 .state")).to_contain_text("waiting")
    browser_page.goto(here.url)
    running = browser_page.locator(f"#running-{number}")
    expect(running).to_contain_text("1 of 3 steps")
    browser_page.goto(f"{here.url}/jobs/{number}")
    expect(graph.locator(".at-running")).to_have_count(1)
    (tmp_path / "transform").touch()
    expect(graph.locator(".at-succeeded")).to_have_count(3)  # nobody has loaded the page again
    expect(browser_page.locator("#step-3 .state")).to_contain_text("succeeded")
    expect(browser_page.locator("#steps-title")).to_contain_text("3 of 3 done")
    check_with_axe(browser_page)
    graph.locator("a", has_text="extract").click()
    expect(browser_page.locator(".lineage")).to_have_text(f"Step 1 (extract) of flow {number} etl")
    check_with_axe(browser_page)
    browser_page.locator(".lineage a").click()
    graph.locator("a", has_text="transform").click()
    expect(browser_page.locator("tr[data-row]")).to_have_count(3)


def test_what_failed_is_named_and_gone_on_from(
    here: Served, browser_page: Page, tmp_path: Path
) -> None:
    (tmp_path / "enrich").touch()
    number = enqueue(here, "broken")
    browser_page.goto(f"{here.url}/jobs/{number}")
    expect(browser_page.locator(".crumb .state")).to_contain_text("failed")
    expect(browser_page.locator("#step-2")).to_contain_text(f"ValueError: {SCRIPT}")
    expect(browser_page.locator("svg .at-cancelled .name")).to_have_text("last")
    assert browser_page.locator("main script").count() == 0
    check_with_axe(browser_page)
    browser_page.goto(here.url)
    needs = browser_page.locator(".needs article")
    expect(needs).to_have_count(1)
    expect(needs).to_contain_text("broken")
    browser_page.goto(f"{here.url}/jobs/{number}")
    browser_page.get_by_role("button", name="Retry failed steps").click()
    expect(browser_page.locator(".toast")).to_contain_text(f"Flow {number} continues")


@pytest.mark.thorough("a browser and a server for another look at the same page")
def test_on_a_phone_the_steps_are_a_list(here: Served, browser_page: Page) -> None:
    number = enqueue(here, "etl")
    browser_page.set_viewport_size({"width": 360, "height": 740})
    browser_page.goto(f"{here.url}/jobs/{number}")
    expect(browser_page.locator("#step-1 .state")).to_contain_text("succeeded")
    expect(browser_page.locator("svg.flow-graph")).to_be_hidden()
    assert browser_page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    check_with_axe(browser_page)


def test_a_step_that_asks_has_a_form_for_the_answer(here: Served, browser_page: Page) -> None:
    number = enqueue(here, "approved", order="A 7")
    browser_page.goto(f"{here.url}/jobs/{number}")
    expect(browser_page.locator("svg .at-awaiting .name")).to_have_text("approval")
    browser_page.locator("#step-1").get_by_role("button", name="Answer…").click()
    sheet = browser_page.locator("#sheet")
    expect(sheet).to_contain_text("order.approved with key A 7")
    expect(sheet.get_by_label("Payload, as JSON")).to_have_value('{"approved": true}')
    check_with_axe(browser_page)

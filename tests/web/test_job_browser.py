"""The pages about jobs in a real browser, beside a real worker."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Dialog, Page, expect

from tests.infrastructure.served import Served, served

SCRIPT = "<script>alert(1)</script><img src=x onerror=alert(2)>"
TASKS = """
from pathlib import Path
from duly import Duly, current
from duly.clock import sleep

duly = Duly("duly.db")


@duly.task(retry=None)
async def report(note: str) -> None:
    current().log.info("begun \\x1b[31m%s\\x1b[0m", note)
    while not Path("go").exists():
        await sleep(0.05)
    current().log.warning("done")


@duly.task(retry=None)
async def refuse(why: str) -> None:
    raise ValueError(why)


if __name__ == "__main__":
    duly.run()
"""


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Served]:
    (tmp_path / "tasks.py").write_text(TASKS)
    worker = [sys.executable, "tasks.py"]
    with (
        served(tmp_path / "duly.db", folder=tmp_path) as found,
        subprocess.Popen(worker, cwd=tmp_path, stderr=subprocess.DEVNULL) as process,
    ):
        try:
            yield found
        finally:
            process.kill()


@pytest.fixture
def browser_page(here: Served, page: Page) -> Iterator[Page]:
    """Signed in; whatever the browser complains about, or is made to do, is an error."""
    wrong: list[str] = []

    def dismiss(dialog: Dialog) -> None:
        wrong.append(dialog.message)
        dialog.dismiss()

    page.on("console", lambda said: wrong.append(said.text) if said.type == "error" else None)
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("dialog", dismiss)
    page.goto(f"{here.url}/login?token={here.secret}")
    yield page
    assert wrong == []


def enqueue(here: Served, task: str, **args: str) -> int:
    body = json.dumps({"task": task, "args": args, "title": " ".join(args.values())[:200]})
    answer = here.ask("POST", "/api/v1/jobs", body, content_type="application/json")
    said = json.loads(answer.body)
    assert answer.status < 300, said
    return int(said["id"])


def test_a_log_grows_while_somebody_looks(here: Served, browser_page: Page, tmp_path: Path) -> None:
    number = enqueue(here, "report", note="a report")
    browser_page.goto(f"{here.url}/jobs/{number}")
    lines = browser_page.locator("[data-log-lines] > div")
    expect(lines.first).to_contain_text("begun a report")
    expect(browser_page.locator(".ansi-red")).to_have_text("a report")
    expect(browser_page.locator(".crumb .state")).to_contain_text("running")
    browser_page.locator("[data-log-search]").fill("DONE")
    expect(lines.first).to_be_hidden()
    (tmp_path / "go").touch()
    expect(lines.nth(1)).to_contain_text("done")
    # What is typed beside it stays while the page is kept up to date.
    expect(browser_page.locator(".crumb .state")).to_contain_text("succeeded")
    expect(browser_page.locator("[data-log-search]")).to_have_value("DONE")
    expect(browser_page.locator("[data-log-count]")).to_have_text("1 of 2")


def test_rows_stay_chosen_while_the_list_changes_and_are_done_together(
    here: Served, browser_page: Page
) -> None:
    first = enqueue(here, "refuse", why="no")
    browser_page.goto(f"{here.url}/jobs?filter=task:refuse")
    expect(browser_page.locator(f"#job-{first} .state")).to_contain_text("failed")
    browser_page.locator(f"#choose-{first}").check()
    browser_page.locator("[data-filter]").fill("task:refuse stat")
    second = enqueue(here, "refuse", why="no again")
    expect(browser_page.locator(f"#job-{second} .state")).to_contain_text("failed")
    expect(browser_page.locator(f"#choose-{first}")).to_be_checked()
    expect(browser_page.locator("[data-filter]")).to_have_value("task:refuse stat")
    offered = browser_page.locator("#filter-words option").evaluate_all(
        "all => all.map(o => o.value)"
    )
    assert "task:refuse state:failed" in offered
    browser_page.get_by_role("complementary").get_by_text("Retry…").click()
    expect(browser_page.locator("#sheet h2")).to_have_text("Retry 1 job?")
    browser_page.locator("#sheet").get_by_text("Retry 1", exact=True).click()
    expect(browser_page.locator(".toast")).to_contain_text("Retried 1 job.")
    expect(browser_page.locator("#sheet")).not_to_be_visible()
    expect(browser_page.locator("[data-bar]")).to_be_hidden()
    expect(browser_page.locator(f"#choose-{first}")).not_to_be_checked()


def test_a_key_is_meant_for_the_row_that_was_seen(here: Served, browser_page: Page) -> None:
    first = enqueue(here, "refuse", why="no")
    browser_page.goto(f"{here.url}/jobs?filter=task:refuse")
    expect(browser_page.locator(f"#job-{first} .state")).to_contain_text("failed")
    browser_page.keyboard.press("j")
    second = enqueue(here, "refuse", why="no again")  # it comes in above
    expect(browser_page.locator(f"#job-{second} .state")).to_contain_text("failed")
    expect(browser_page.locator(".chosen")).to_have_attribute("id", f"job-{first}")
    browser_page.keyboard.press("r")
    expect(browser_page.locator(".toast")).to_contain_text(str(first))
    browser_page.keyboard.press("g")
    browser_page.keyboard.press('"')  # means nothing


def test_a_job_is_run_again_with_other_arguments(here: Served, browser_page: Page) -> None:
    number = enqueue(here, "refuse", why="no address")
    browser_page.goto(f"{here.url}/jobs/{number}")
    expect(browser_page.locator(".crumb .state")).to_contain_text("failed")
    browser_page.get_by_text("Run again…").click()
    browser_page.get_by_label("Arguments, as JSON").fill('{"why": "no street"}')
    browser_page.locator("#sheet").get_by_text("Run", exact=True).click()
    told = browser_page.locator(".toast")
    expect(told).to_contain_text("enqueued")
    made = re.search(r"\d+", told.inner_text())
    assert made is not None
    browser_page.goto(f"{here.url}/jobs/{made[0]}")
    expect(browser_page.locator("h1")).to_contain_text("ValueError: no street")


def test_nothing_that_a_job_says_is_run(here: Served, browser_page: Page, tmp_path: Path) -> None:
    (tmp_path / "go").touch()
    failed, done = enqueue(here, "refuse", why=SCRIPT), enqueue(here, "report", note=SCRIPT)
    for path in ("/jobs", "/jobs?filter=state:failed&group=error"):
        browser_page.goto(f"{here.url}{path}")
        expect(browser_page.locator("main")).to_contain_text(SCRIPT)
    for number, state in ((failed, "failed"), (done, "succeeded")):
        browser_page.goto(f"{here.url}/jobs/{number}")
        expect(browser_page.locator(".crumb .state")).to_contain_text(state)
        expect(browser_page.locator("h1")).to_contain_text(SCRIPT)
    expect(browser_page.locator("[data-log-lines]")).to_contain_text(SCRIPT)
    assert browser_page.locator("main script, main img").count() == 0

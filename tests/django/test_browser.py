"""The admin of the example shop in a browser, with a scheduler and a worker behind it."""

import re
import signal
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from duly import clock
from tests.infrastructure.served import started

ROOT = Path(__file__).parents[2]
PAGES = ("scheduledtask", "schedulefire", "openjob", "endedjob", "deadjob", "jobqueue", "jobworker")


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the shop's pages about duly."""
    database = tmp_path_factory.mktemp("shop") / "shop.sqlite3"
    command = ["tests.django.shop_server"]
    with started(command, ROOT, end=signal.SIGTERM, SHOP_DATABASE=str(database)) as found:
        yield f"{found.url}/admin/duly"


@pytest.fixture(scope="module")
def admin(browser: Browser, shop: str) -> Iterator[Page]:
    """The browser of a superuser; no script of the pages may fail."""
    wrong: list[str] = []
    with browser.new_context() as context:
        page = context.new_page()
        page.on("pageerror", lambda error: wrong.append(str(error)))
        sign_in(page, shop, "ada")
        yield page
    assert wrong == []


def sign_in(page: Page, shop: str, name: str) -> None:
    page.goto(f"{shop}/")
    page.get_by_label("Username").fill(name)
    page.get_by_label("Password").fill("secret")
    page.get_by_role("button", name="Log in").click()


def fill_in(page: Page, shop: str, name: str, kind: str, **fields: str) -> None:
    page.goto(f"{shop}/scheduledtask/add/")
    page.locator("#id_name").fill(name)
    page.locator("#id_kind").select_option(kind)
    for field, text in fields.items():
        place = page.locator(f"#id_{field}")
        if field in ("task", "unit"):
            place.select_option(text)
        else:
            place.fill(text)


def save(page: Page) -> None:
    page.get_by_role("button", name="Save", exact=True).click()


def message(page: Page) -> Locator:
    return page.locator(".messagelist li")


def row(page: Page, name: str) -> Locator:
    """The first row of a list that has a link or a heading with this name."""
    return page.locator("#result_list tbody tr", has=page.get_by_text(name, exact=True)).first


def wait_for(page: Page, found: Locator) -> None:
    """Reload the page until something is on it, as a person does."""
    end = clock.now() + timedelta(seconds=20)
    while not found.is_visible():
        assert clock.now() < end, page.locator("#content").inner_text()
        page.reload()


def choose(page: Page, action: str, *names: str) -> None:
    for name in names:
        row(page, name).get_by_role("checkbox").check()
    page.get_by_label("Action:").select_option(label=action)
    page.locator("button[name=index]").click()  # "Go", or "Run" in Django 6


def run_now(page: Page, shop: str, task: str, args: str) -> None:
    """Make a schedule that is due in years, and run it now."""
    later = {"moment": "2037-01-01T10:00", "task": task, "args": args}
    fill_in(page, shop, f"later {task}", "once", **later)
    save(page)
    row(page, f"later {task}").get_by_role("link").click()
    page.get_by_role("button", name="Run now").click()
    expect(message(page)).to_have_text("Enqueued: 1")


def open_job(page: Page, task: str) -> None:
    row(page, task).get_by_role("link").first.click()


def test_a_rule_is_previewed_and_a_wrong_one_is_said_at_its_field(admin: Page, shop: str) -> None:
    page, preview = admin, admin.locator("#duly-preview")
    fill_in(page, shop, "receipts", "cron", rule="x 2 * * *", args='{"order_id": 7}')
    page.locator("#id_task").select_option("send_receipt")
    expect(page.locator("#id_moment")).to_be_hidden()
    expect(preview.locator(".errornote")).to_contain_text("minute")
    save(page)
    expect(page.locator(".field-rule .errorlist")).to_contain_text("minute")
    page.locator("#id_rule").fill("0 2 * * *")
    expect(preview.locator("p").first).to_have_text("Every day at 02:00 UTC.")
    expect(preview.locator("li")).to_have_count(5)
    save(page)
    expect(message(page)).to_contain_text("added successfully")
    choose(page, "Disable (pause)", "receipts")
    expect(message(page)).to_have_text("Disabled: 1")
    expect(row(page, "receipts").get_by_alt_text("False")).to_be_visible()
    choose(page, "Enable (resume)", "receipts")
    expect(row(page, "receipts").get_by_alt_text("True")).to_be_visible()
    choose(page, "Delete selected schedules", "receipts")
    page.get_by_role("button", name="Yes").click()
    expect(message(page)).to_contain_text("Successfully deleted")


def test_a_run_succeeds_a_failed_one_is_requeued_and_a_running_one_is_stopped(
    admin: Page, shop: str
) -> None:
    page = admin
    run_now(page, shop, "send_receipt", '{"order_id": 7}')
    page.goto(f"{shop}/endedjob/")
    wait_for(page, row(page, "send_receipt"))
    open_job(page, "send_receipt")
    expect(page.locator(".field-returned pre")).to_have_text('"receipt for order 7"')
    expect(page.locator(".field-schedule a")).to_have_text("later send_receipt")

    run_now(page, shop, "charge_card", '{"amount": 2.5}')
    page.goto(f"{shop}/deadjob/")
    wait_for(page, row(page, "charge_card"))
    open_job(page, "charge_card")
    failed = page.url
    expect(page.locator(".field-failure")).to_contain_text("ValueError: the bank refuses")
    page.get_by_role("button", name="Requeue").click()
    expect(message(page)).to_have_text("Requeued: 1")
    page.goto(failed)
    second = re.compile(r"^2\. raised at", re.MULTILINE)
    wait_for(page, page.locator(".field-attempts pre", has_text=second))

    run_now(page, shop, "count_stock", "{}")
    page.goto(f"{shop}/openjob/?state=running")
    wait_for(page, row(page, "count_stock"))
    open_job(page, "count_stock")
    page.get_by_role("button", name="Cancel").click()
    expect(message(page)).to_have_text("Cancelled or told to stop: 1")
    page.goto(f"{shop}/endedjob/?state=cancelled")
    wait_for(page, row(page, "count_stock"))
    expect(row(page, "count_stock")).to_contain_text("cancelled by ada")


def test_a_queue_is_paused_and_a_worker_drained(admin: Page, shop: str) -> None:
    page = admin
    page.goto(f"{shop}/jobqueue/")
    shown = page.locator("#result_list thead th").all_inner_texts()
    assert [word.lower() for word in shown[3:-1]] == [
        *("scheduled", "blocked", "ready", "running", "succeeded", "cancelled", "expired", "failed")
    ]
    for button, paused in (("Pause", "paused"), ("Resume", "")):
        row(page, "default").get_by_role("checkbox").check()
        page.get_by_role("button", name=button).click()
        expect(row(page, "default").locator("td").nth(1)).to_have_text(paused)
    page.goto(f"{shop}/jobworker/")
    worker = page.locator("#result_list tbody th").inner_text()
    for action, order in (("Drain: start no more jobs", "drain"), ("Resume", "run")):
        choose(page, action, worker)
        expect(row(page, worker).locator(".field-told")).to_have_text(order)


def test_staff_without_a_permission_sees_no_page_and_no_button(page: Page, shop: str) -> None:
    sign_in(page, shop, "bob")  # he may look at jobs
    expect(page.locator("#content-main th a")).to_have_text(["Jobs"])
    page.goto(f"{shop}/openjob/")
    expect(page.locator("select[name=action]")).to_have_count(0)
    for model in PAGES:
        answer = page.goto(f"{shop}/{model}/")
        assert answer is not None
        assert answer.status == (200 if model == "openjob" else 403)


@pytest.mark.thorough("the journey above makes some of them, and each takes seconds of real time")
@pytest.mark.parametrize(
    ("fields", "runs"),
    [
        ({"kind": "once"}, 1),
        ({"kind": "repeatable", "number": "1", "unit": "s", "max_runs": "3"}, 3),
        ({"kind": "repeatable", "number": "1", "unit": "s"}, None),
        ({"kind": "cron", "rule": "* * * * * *"}, None),
        ({"kind": "calendar", "rule": "*:*:*"}, None),
        ({"kind": "rrule", "rule": "DTSTART:20260101T000000 RRULE:FREQ=SECONDLY"}, None),
    ],
    ids=["once", "three times", "for ever", "cron", "calendar", "RRULE"],
)
def test_a_schedule_of_each_type_is_seen_to_run(
    admin: Page, shop: str, fields: dict[str, str], runs: int | None
) -> None:
    page = admin
    if fields["kind"] == "once":
        fields = {**fields, "moment": f"{clock.now() + timedelta(seconds=4):%Y-%m-%dT%H:%M:%S}"}
    given = {"task": "send_receipt", "args": '{"order_id": 7}'}
    fill_in(page, shop, "typed", **fields, **given)
    expect(page.locator("#duly-preview li").first).to_be_visible()
    save(page)
    row(page, "typed").get_by_role("link").click()
    schedule = page.url
    page.locator(".field-runs").get_by_role("link", name="ended jobs").click()
    jobs = page.locator("#result_list tbody tr")
    wait_for(page, jobs.nth((runs or 2) - 1))
    if runs is not None:
        expect(jobs).to_have_count(runs)
        page.goto(f"{shop}/scheduledtask/")
        expect(row(page, "typed").locator(".field-next_at")).to_have_text("-")
    page.goto(schedule)
    page.get_by_role("link", name="Delete").click()
    page.get_by_role("button", name="Yes").click()
    expect(message(page)).to_contain_text("deleted successfully")


@pytest.mark.thorough("looks at pages that the journeys above have used")
def test_no_page_is_wider_than_a_telephone(admin: Page, shop: str) -> None:
    page = admin
    page.set_viewport_size({"width": 390, "height": 844})
    for model in (*PAGES, "scheduledtask/add"):
        page.goto(f"{shop}/{model}/")
        assert page.evaluate("document.documentElement.scrollWidth") <= 390, model

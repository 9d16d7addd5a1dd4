"""What people come for, in a real browser: on the demo at work, with SQLite below."""

import json
import re
from collections.abc import Callable, Iterator

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Dialog, Page, expect

from tests.infrastructure.served import Served, running_shop

expect.set_options(timeout=20_000)

BAD = ("error", "warning")
PAGES = (
    "/",
    "/schedules",
    "/schedules/rollup",
    "/schedules/timeline",
    "/jobs",
    "/jobs?filter=state%3Afailed&group=error",
    "/capacity",
    "/system",
    "/system/audit",
    "/system/tokens",
    "/system/settings",
    "/api/v1/docs",
)
USUAL = {"/", "/schedules/rollup", "/jobs"}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tmp_path_factory.mktemp("shop") / "duly.db")


@pytest.fixture(scope="module")
def shop(store: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with running_shop(store, tmp_path_factory.mktemp("here")) as found:
        assert found.ask("POST", "/api/v1/schedules/open_shop/run").status == 200
        yield found


@pytest.fixture
def complaints(page: Page) -> Iterator[list[str]]:
    """What the browser complains about: a script that fails, a policy that is broken."""
    found: list[str] = []
    page.on("pageerror", lambda error: found.append(str(error)))
    page.on(
        "console",
        lambda said: found.append(said.text) if said.type in ("error", "warning") else None,
    )
    yield found
    assert found == []


@pytest.fixture
def open_page(page: Page, shop: Served, complaints: list[str]) -> Callable[[str], Page]:
    """Signed in as an admin, by the address that was printed."""
    page.goto(f"{shop.url}/login?token={shop.secret}")

    def go(path: str) -> Page:
        page.goto(shop.url + path)
        return page

    return go


def test_the_demo_is_seen_live(open_page: Callable[[str], Page]) -> None:
    page = open_page("/")
    coming = page.locator("#coming-heartbeat time").first
    seen = coming.get_attribute("datetime") or ""
    expect(coming).not_to_have_attribute("datetime", seen)  # nobody has loaded the page again


def test_why_a_run_was_skipped_is_on_the_first_page_and_in_the_history(
    open_page: Callable[[str], Page],
) -> None:
    page = open_page("/")
    need = page.locator(".needs article", has_text="rollup")
    expect(need).to_contain_text(re.compile(r"Skipped at .*overlap=\"skip\", and the run of"))
    need.get_by_role("link", name="rollup").click()
    row = page.locator("table tr", has_text="skipped").first
    expect(row).to_contain_text("overlap")


def test_a_schedule_is_edited_and_the_preview_changes_while_somebody_types(
    open_page: Callable[[str], Page],
) -> None:
    page = open_page("/schedules/nightly_report")
    page.get_by_role("button", name="Edit").click()
    sheet = page.locator("#sheet")
    rule = sheet.get_by_label("When", exact=True)
    rule.fill("Mon..Fri 25:00")
    expect(sheet.locator("#draft")).to_contain_text("25")
    rule.fill("Mon..Fri 03:30")
    expect(sheet.locator("#draft")).to_contain_text("Weekdays at 03:30")
    expect(sheet.locator("#draft")).to_contain_text("02:00")  # what it was
    sheet.get_by_role("button", name=re.compile("Save")).click()
    expect(page.locator("main .sentence")).to_contain_text("03:30")
    expect(page.get_by_text("because somebody edited it")).to_be_visible()


def test_a_failed_job_is_found_and_given_another_chance(
    open_page: Callable[[str], Page],
) -> None:
    page = open_page("/jobs?filter=state%3Afailed")
    page.locator("tbody a").first.click()
    expect(page.locator("main")).to_contain_text("order 4711 has no address")
    page.get_by_role("button", name="Retry").first.click()
    expect(page.locator("#toasts")).to_contain_text("is retried")


def test_a_log_is_followed_while_it_is_written(
    open_page: Callable[[str], Page], shop: Served
) -> None:
    asked = shop.ask("POST", "/api/v1/jobs", json.dumps({"task": "export"}))
    assert asked.status in {200, 201}, asked.body
    page = open_page(f"/jobs/{json.loads(asked.body)['id']}")
    expect(page.locator("main")).to_contain_text("page 1 written")
    expect(page.locator("main")).not_to_contain_text("page 10 written")
    expect(page.locator("main")).to_contain_text("page 10 written")


def test_a_queue_is_paused_with_a_reason_and_resumed(open_page: Callable[[str], Page]) -> None:
    page = open_page("/capacity")
    page.locator("tr", has_text="default").get_by_role("button", name="Pause").first.click()
    sheet = page.locator("#sheet")
    sheet.get_by_role("textbox").first.fill("the bank is closed")
    sheet.get_by_role("button", name="Pause").click()
    expect(page.locator("main")).to_contain_text("the bank is closed")
    page.get_by_role("button", name="Resume").first.click()
    expect(page.locator("main")).not_to_contain_text("the bank is closed")


def test_a_viewer_sees_everything_and_may_press_nothing(
    page: Page, shop: Served, complaints: list[str]
) -> None:
    made = shop.ask("POST", "/api/v1/tokens", json.dumps({"name": "eve", "role": "viewer"}))
    secret = json.loads(made.body)["secret"]
    page.goto(shop.url)
    page.get_by_label("Token").fill(secret)
    page.get_by_role("button", name="Sign in").click()
    page.goto(f"{shop.url}/schedules/rollup")
    button = page.get_by_role("button", name="Run now")
    expect(button).to_be_disabled()
    expect(button).to_have_attribute("title", "needs the operator role")
    refused = page.evaluate(
        """async () => (await fetch("/api/v1/schedules/rollup/run", {method: "POST",
            headers: {"x-csrf-token": "x"}})).status"""
    )
    assert refused == 403
    complaints.clear()  # the browser says that it was refused


other_page = pytest.mark.thorough("two looks at another page take a browser some seconds")


@pytest.mark.parametrize(
    "path", [pytest.param(page, marks=[] if page in USUAL else [other_page]) for page in PAGES]
)
def test_every_page_can_be_used_by_everybody(open_page: Callable[[str], Page], path: str) -> None:
    """On a desk in the light, and on a telephone in the dark."""
    page = open_page(path)
    for theme, width in (("light", 1280), ("dark", 360)):
        page.emulate_media(color_scheme=theme, reduced_motion="reduce")  # type: ignore[arg-type]
        page.set_viewport_size({"width": width, "height": 800})
        overflow = page.evaluate(
            "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        )
        assert overflow == 0, f"{path} is wider than {width} px"
        result = Axe().run(page, options={"runOnly": ["wcag2a", "wcag2aa", "wcag21aa"]})
        assert result.violations_count == 0, result.generate_report()


def test_everything_is_at_hand_on_the_keyboard(open_page: Callable[[str], Page]) -> None:
    page = open_page("/")
    page.keyboard.press("g")
    page.keyboard.press("s")
    expect(page).to_have_url(re.compile("/schedules$"))
    page.wait_for_load_state()
    page.keyboard.press("?")
    expect(page.locator("#keys")).to_be_visible()
    page.keyboard.press("Escape")
    page.keyboard.press("j")
    expect(page.locator(".chosen")).to_have_count(1)
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("/schedules/.+"))
    page.wait_for_load_state()
    page.keyboard.press("/")
    expect(page.locator("input:focus")).to_have_count(1)


def test_the_next_run_is_skipped_by_its_date_and_the_skip_is_undone(
    open_page: Callable[[str], Page],
) -> None:
    page = open_page("/schedules/rollup_eu")
    asked: list[str] = []

    def agree(dialog: Dialog) -> None:
        asked.append(dialog.message)
        dialog.accept()

    page.on("dialog", agree)
    page.get_by_role("button", name="Skip next").click()
    undo = page.get_by_role("button", name="Undo skip")
    expect(undo).to_be_visible()
    assert re.fullmatch(
        r"Skip the run of \w{3} \d{4}-\d\d-\d\d \d\d:\d\d:\d\d Europe/Berlin\?", asked[0]
    )
    undo.click()
    expect(undo).to_be_hidden()
    expect(page.locator("#toasts")).to_contain_text("will run again")


def test_a_search_opens_a_job_by_its_number_and_finds_schedules_by_their_names(
    open_page: Callable[[str], Page], shop: Served
) -> None:
    asked = shop.ask("POST", "/api/v1/jobs", json.dumps({"task": "export"}))
    number = json.loads(asked.body)["id"]
    page = open_page("/")
    box = page.get_by_role("searchbox", name="Search jobs and schedules")
    box.fill(str(number))
    box.press("Enter")
    expect(page).to_have_url(f"{shop.url}/jobs/{number}")
    box.fill("nightly")
    box.press("Enter")
    page.get_by_role("link", name="nightly_report").click()
    expect(page).to_have_url(f"{shop.url}/schedules/nightly_report")


@pytest.mark.parametrize(
    "theme", ["light", pytest.param("dark", marks=pytest.mark.thorough("the other theme"))]
)
def test_a_primary_button_can_be_read_while_the_pointer_is_on_it(
    open_page: Callable[[str], Page], theme: str
) -> None:
    page = open_page("/schedules/rollup")
    page.emulate_media(color_scheme=theme, reduced_motion="reduce")  # type: ignore[arg-type]
    page.get_by_role("button", name="Run now").hover()
    result = Axe().run(page, options={"runOnly": ["color-contrast"]})
    assert result.violations_count == 0, result.generate_report()


def test_a_telephone_shows_what_matters_first(
    open_page: Callable[[str], Page], shop: Served
) -> None:
    title = "Statement of account for Hernandez & Daughters, all branches"
    asked = shop.ask("POST", "/api/v1/jobs", json.dumps({"task": "export", "title": title}))
    page = open_page("/")
    page.set_viewport_size({"width": 390, "height": 800})
    page.reload()
    running = page.locator(f"#running-{json.loads(asked.body)['id']}")
    expect(running.locator("progress")).to_be_visible()
    name = running.get_by_role("link").bounding_box()
    assert name
    assert name["width"] > 300, "most of the title can be read"
    parts = running.locator("> *").evaluate_all(
        """all => all.map(one => {
            const text = document.createRange();
            text.selectNodeContents(one);
            const spills = one.tagName === "SPAN" && text.getClientRects().length;
            return (spills ? text : one).getBoundingClientRect();
        })"""
    )
    for place, one in enumerate(parts):
        for other in parts[place + 1 :]:
            beside = one["right"] <= other["left"] + 1 or other["right"] <= one["left"] + 1
            above = one["bottom"] <= other["top"] + 1 or other["bottom"] <= one["top"] + 1
            assert beside or above, f"two parts of a running job overlap: {one} and {other}"
    page.goto(f"{shop.url}/jobs?filter=state%3Afailed")
    row = page.locator("tbody tr").first
    for seen in (row.locator("time").first, row.locator(".why"), row.get_by_text("Retry")):
        expect(seen).to_be_in_viewport()
    for path in ("/", "/schedules/timeline"):
        page.goto(shop.url + path)
        expect(page.locator("[data-now] svg .now")).to_be_in_viewport()
    expect(page.locator("text.lane").first).to_be_in_viewport()
    moved = page.locator("[data-now]").evaluate(
        """drawing => new Promise(answer => {
            const place = () => drawing.querySelector("text.lane").getBoundingClientRect().left;
            const before = place();
            drawing.addEventListener("scroll", () => answer(place() - before), {once: true});
            drawing.scrollLeft /= 2;
        })"""
    )
    assert abs(moved) < 1, "the names of the lanes stay where they are"

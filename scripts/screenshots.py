"""Pictures of the dashboard for README and docs, taken of the demo at work.

``make screenshots`` runs the demo in a folder of its own for a minute, signs in by the address that
it prints, and takes each picture in docs/images.
"""

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from playwright.sync_api import Browser, Page, sync_playwright

from tests.infrastructure.chromium import QUIET, installed_chromium

IMAGES = Path(__file__).parents[1] / "docs" / "images"
WARM_SECONDS = 50  # after so long, something has failed, been skipped, and is being exported
Prepare = Callable[[Page], None]


def _nothing(_: Page) -> None:
    pass


def _edit(page: Page) -> None:
    page.get_by_role("button", name="Edit").click()
    page.locator("#sheet").get_by_label("When", exact=True).fill("Mon..Fri 02:30 Europe/Berlin")
    page.locator("#draft").get_by_text("Weekdays at 02:30").first.wait_for()


def _first_job(page: Page) -> None:
    page.locator("tbody a").first.click()
    page.get_by_text("page 3 written").wait_for()


def _first_flow(page: Page) -> None:
    page.locator("tbody a").first.click()
    page.locator("svg.flow-graph, .graph svg").first.wait_for()


class Picture(NamedTuple):
    name: str
    path: str
    theme: str = "light"
    height: int = 860
    prepare: Prepare = _nothing


PICTURES = (
    Picture("today", "/"),
    Picture("today-dark", "/", theme="dark"),
    Picture("schedule", "/schedules/stock", height=1180),
    Picture("edit", "/schedules/nightly_report", prepare=_edit),
    Picture("timeline", "/schedules/timeline"),
    Picture("job", "/jobs?filter=task:export+state:running", height=980, prepare=_first_job),
    Picture("flow", "/jobs?filter=task:daily_sales", height=820, prepare=_first_flow),
    Picture("events", "/schedules/events", height=760),
    Picture("failures", "/jobs?filter=state:failed&group=error", height=560),
    Picture("capacity", "/capacity", theme="dark", height=1180),
)


def main() -> None:
    IMAGES.mkdir(exist_ok=True)
    with demo() as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=installed_chromium(), args=QUIET, chromium_sandbox=os.geteuid() != 0
        )
        _wait(browser, address)
        for picture in PICTURES:
            take(browser, address, picture)
        browser.close()


@contextmanager
def demo() -> Iterator[str]:
    command = [sys.executable, "-m", "duly", "dev", "--demo", "--web", "--port", "0"]
    with (
        tempfile.TemporaryDirectory() as folder,
        subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True) as process,
    ):
        assert process.stderr is not None
        line = next(line for line in process.stderr if line.startswith("dashboard:"))
        try:
            yield line.split()[1]
        finally:
            process.send_signal(signal.SIGTERM)
            process.communicate()


def _wait(browser: Browser, address: str) -> None:
    page = browser.new_page()
    page.goto(address)
    page.wait_for_timeout(WARM_SECONDS * 1_000)
    page.close()


def take(browser: Browser, address: str, picture: Picture) -> None:
    context = browser.new_context(
        viewport={"width": 1180, "height": picture.height},
        color_scheme="dark" if picture.theme == "dark" else "light",
        device_scale_factor=1.5,
    )
    page = context.new_page()
    page.goto(address)
    page.goto(address.partition("/login")[0] + picture.path)
    picture.prepare(page)
    page.wait_for_timeout(1_500)
    page.screenshot(path=IMAGES / f"{picture.name}.png")
    context.close()


if __name__ == "__main__":
    main()

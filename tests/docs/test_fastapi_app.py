"""The shop on FastAPI, in a browser: its people, its keys, its orders, and an end without delay."""

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from duly import Duly
from tests.docs.situations import EXAMPLES
from tests.infrastructure.served import Served


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Served]:
    place = ["--app-dir", str(EXAMPLES / "fastapi_app"), "main:app", "--port", "0"]
    with subprocess.Popen(
        [sys.executable, "-m", "uvicorn", *place, "--no-access-log"],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        said = ""
        for line in process.stderr:
            said += line
            if found := re.search(r"http://[\d.]+:\d+", line):
                yield Served(process, found[0])
                break
        else:
            pytest.fail(said)
        process.kill()


def test_an_order_is_confirmed_and_seen_by_the_people_of_the_shop(
    shop: Served, page: Page, tmp_path: Path
) -> None:
    address = shop.url
    page.goto(f"{address}/duly/")
    expect(page.get_by_role("heading")).to_contain_text("Authentication required")
    page.goto(address)
    page.get_by_role("link", name="Sign in as ada").click()
    page.get_by_role("button", name="Buy a book").click()
    page.get_by_role("link", name="Jobs").click()
    page.goto(f"{address}/duly/jobs")
    expect(page.get_by_role("link", name="confirm")).to_be_visible()
    expect(page.get_by_text("succeeded").first).to_be_visible(timeout=15_000)
    page.goto(address)
    expect(page.get_by_role("listitem")).to_have_text("a book: confirmed")

    page.goto(f"{address}/duly/schedules/count_orders")
    page.get_by_role("button", name="Pause").click()
    page.get_by_role("dialog").get_by_role("button", name="Pause").click()
    expect(page.get_by_role("button", name="Resume")).to_be_visible()
    page.goto(f"{address}/sign-in/bob")
    page.goto(f"{address}/duly/schedules/count_orders")  # a viewer
    expect(page.get_by_role("button", name="Resume")).to_be_disabled()

    with ThreadPoolExecutor(1) as aside:
        of_duly = aside.submit(own_token, tmp_path / "shop.db").result()
    for key, status in (("key-of-the-robot", 200), ("another-key", 401), (of_duly, 401)):
        asked = replace(shop, secret=key).ask("GET", "/duly/api/v1/jobs")
        assert asked.status == status, key

    shop.process.send_signal(signal.SIGTERM)  # while the page has a stream open
    shop.process.wait(10)


def own_token(store: Path) -> str:
    app = Duly(str(store))
    try:
        return app.tokens.create("stranger", role="admin").secret
    finally:
        app.close()

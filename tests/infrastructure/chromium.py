"""Chromium for tests: pytest-playwright's ``page``, on the browser that this machine has."""

import asyncio
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import BrowserType

# A browser under test calls nobody: no updates, no synchronisation, no first-run pages.
QUIET = [
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-gpu",
    "--disable-quic",
    "--disable-sync",
    "--no-first-run",
]


@pytest.fixture(scope="session")
def browser_type_launch_args(
    browser_type_launch_args: dict[str, Any], browser_type: BrowserType
) -> dict[str, Any]:
    browser = installed_chromium() or browser_type.executable_path
    if not Path(browser).exists():
        pytest.skip("NO BROWSER: install chromium, or set DULY_TEST_CHROMIUM to one")
    return {**browser_type_launch_args, "executable_path": browser, "args": QUIET}


def installed_chromium() -> str | None:
    return (
        os.environ.get("DULY_TEST_CHROMIUM")
        or shutil.which("chromium")
        or shutil.which("google-chrome")
    )


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Lets tests with an event loop of their own, and their fixtures, follow browser tests.

    Between its calls Playwright leaves its own loop marked as running in this thread, and asyncio
    then refuses to run another one.
    """
    if "playwright" in getattr(item, "fixturenames", ()):
        return (yield)
    parked = asyncio._get_running_loop()
    asyncio._set_running_loop(None)
    try:
        return (yield)
    finally:
        asyncio._set_running_loop(parked)

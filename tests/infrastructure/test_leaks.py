"""The leak check has been seen to fail."""

import threading
from collections.abc import Iterator

import pytest

RELEASE = threading.Event()

LEAVES_A_THREAD = """
import threading
from tests.infrastructure.test_leaks import RELEASE

def test_that_leaves_a_thread():
    threading.Thread(target=RELEASE.wait, name="straggler").start()
"""

LEAVES_A_TASK = """
import asyncio

async def straggler():
    await asyncio.Event().wait()

async def test_that_leaves_a_task():
    global task
    task = asyncio.create_task(straggler())
"""

LEAVES_NOTHING = """
import asyncio
import threading

async def test_that_waits_for_its_task():
    await asyncio.create_task(asyncio.to_thread(threading.Event().is_set))

def test_that_has_a_daemon():
    threading.Thread(target=threading.Event().wait, daemon=True).start()
"""


@pytest.fixture(autouse=True)
def stragglers_are_released() -> Iterator[None]:
    RELEASE.clear()
    yield
    RELEASE.set()


def run(pytester: pytest.Pytester, test: str) -> pytest.RunResult:
    pytester.makepyfile(test)
    pytester.makeini("""
        [pytest]
        asyncio_mode = auto
        asyncio_default_fixture_loop_scope = function
        # pytest-playwright cannot run inside itself.
        addopts = -p no:playwright -p tests.infrastructure.chromium -p tests.infrastructure.leaks
    """)
    return pytester.runpytest_inprocess()


def test_a_test_that_leaves_a_thread_fails(pytester: pytest.Pytester) -> None:
    result = run(pytester, LEAVES_A_THREAD)
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(["*the test left threads behind: *straggler*"])


def test_a_test_that_leaves_a_task_fails(pytester: pytest.Pytester) -> None:
    result = run(pytester, LEAVES_A_TASK)
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(["*the test left tasks behind: *straggler*"])


def test_a_test_that_cleans_up_passes(pytester: pytest.Pytester) -> None:
    run(pytester, LEAVES_NOTHING).assert_outcomes(passed=2)

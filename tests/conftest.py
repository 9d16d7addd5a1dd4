"""What every test may ask for. Each machine the tests run on has a file of its own."""

import gc
import os
import signal

pytest_plugins = [
    "pytester",
    "tests.infrastructure.chromium",
    "tests.infrastructure.commands",
    "tests.infrastructure.leaks",
    "tests.infrastructure.memory",
    "tests.infrastructure.postgres",
    "tests.infrastructure.tiers",
]

# The tests of the web side start one; all others that run an app would have one in vain.
os.environ["DULY_WEB"] = "no"

# Whoever runs the tests in the background may ignore Ctrl-C; what they start must not.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_finish() -> None:
    """Some million objects stay until the end: they need not be looked through again and again."""
    gc.collect()
    gc.freeze()

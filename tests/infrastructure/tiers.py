"""``--tier`` selects which tests run, and how many examples a property is tried with.

============  ==========================================================================
``quick``     rooms without input and output, and the conformance suite in memory:
              no database server, no browser
``test``      every promise once: all but the tests marked ``thorough``; few examples
``rest``      what ``test`` left out: the tests marked ``thorough``, and each property
              with all of its examples
``all``       every test with all examples (the default)
============  ==========================================================================

``@pytest.mark.thorough("reason")`` marks a test that repeats a check on another database, driver or
page, or one that searches for minutes. A module ``test_x_postgres.py`` repeats ``test_x.py``, so it
needs no mark.
"""

from pathlib import Path
from typing import Final

import pytest
from hypothesis import settings

TIERS: Final = ("quick", "test", "rest", "all")
TESTS = Path(__file__).parents[1]
QUICK = [
    TESTS / name
    for name in (
        "files",
        "flow",
        "model",
        "policy",
        "registry",
        "rules",
        "settings",
        "store/test_conformance.py",
        "test_clock.py",
    )
]
MACHINES = {"pg_cluster", "playwright"}  # the fixtures that start a server or a browser


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--tier", choices=TIERS, default="all", help="which tests to run")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "thorough(reason): runs in make test-all and .ci/run only")
    # A slow machine is not a bug in the rule under test; a hang is caught by the timeout.
    settings.register_profile("all", deadline=None)
    settings.register_profile("few", deadline=None, max_examples=25)
    settings.load_profile("all" if config.getoption("tier") in ("rest", "all") else "few")


def examples(number: int) -> int:
    """Return how many examples this tier tries of a property that deserves ``number``."""
    return number if settings.get_current_profile_name() == "all" else max(number // 8, 25)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    if config.getoption("tier") != "quick":
        return None
    wanted = any(
        collection_path.is_relative_to(room) or room.is_relative_to(collection_path)
        for room in QUICK
    )
    return None if wanted else True


@pytest.hookimpl(trylast=True)  # Hypothesis has marked its tests by then
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    tier = config.getoption("tier")
    kept = [item for item in items if tier in tiers(item)]
    config.hook.pytest_deselected(items=[item for item in items if tier not in tiers(item)])
    items[:] = kept


def tiers(item: pytest.Item) -> set[str]:
    """Return the tiers in which the test runs."""
    if is_thorough(item):
        return {"rest", "all"}
    found = {"test", "all"}
    if MACHINES.isdisjoint(getattr(item, "fixturenames", ())):
        found.add("quick")
    if item.get_closest_marker("hypothesis"):
        found.add("rest")
    return found


def is_thorough(item: pytest.Item) -> bool:
    mark = item.get_closest_marker("thorough")
    if mark is None:
        repeated, suffix, _ = item.path.name.rpartition("_postgres.py")
        return bool(suffix) and item.path.with_name(f"{repeated}.py").exists()
    if not (mark.args and isinstance(mark.args[0], str)):
        raise pytest.UsageError(f"{item.nodeid}: thorough says no reason")
    return True

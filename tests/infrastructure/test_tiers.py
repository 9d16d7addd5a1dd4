"""Every test runs in ``.ci/run``, and what ``make test`` leaves out says why."""

import pytest

from tests.infrastructure.tiers import tiers

TWO = """
import pytest

def test_usual(): ...

def test_on_a_server(pg_cluster): ...

@pytest.mark.hypothesis
def test_property(): ...

@pytest.mark.thorough("repeats")
def test_again(): ...
"""


@pytest.fixture
def found(pytester: pytest.Pytester) -> dict[str, set[str]]:
    pytester.makepyfile(test_x=TWO)
    pytester.makepyfile(test_x_postgres="def test_repeated(): ...")
    pytester.makepyfile(test_postgres="def test_alone(): ...")
    items, _ = pytester.inline_genitems("-W", "ignore")
    return {item.name: tiers(item) for item in items}


def test_what_runs_when(found: dict[str, set[str]]) -> None:
    assert found == {
        "test_usual": {"quick", "test", "all"},
        "test_on_a_server": {"test", "all"},
        "test_property": {"quick", "test", "rest", "all"},
        "test_again": {"rest", "all"},
        "test_repeated": {"rest", "all"},
        "test_alone": {"quick", "test", "all"},
    }


def test_a_mark_without_a_reason_is_refused(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("import pytest\n@pytest.mark.thorough\ndef test_again(): ...")
    [item], _ = pytester.inline_genitems("-W", "ignore")
    with pytest.raises(pytest.UsageError, match="thorough says no reason"):
        tiers(item)

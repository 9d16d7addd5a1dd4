"""The documentation site is whole and needs no network; its pages are spelled correctly."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import duly
import duly.errors
import duly.rules
import duly.testing

ROOT = Path(__file__).parents[2]
PAGES = ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "docs", "examples"]
# Async variants, as aadd, are no misspellings.
OUR_WORDS = "aadd"
LOADED = re.compile(
    r'<(?:script|img|link|iframe)\b[^>]*\b(?:src|href)="((?:https?:)?//[^"]+)"', re.IGNORECASE
)


@pytest.mark.thorough("builds sixty pages")
def test_the_site_is_built_without_a_broken_link_and_loads_nothing_from_elsewhere(
    tmp_path: Path,
) -> None:
    """Sphinx warns of links that lead nowhere, and of pages that the navigation lacks."""
    asked = ["-q", "-W", "--keep-going", "-c", "docs", ".", str(tmp_path)]
    done = run("sphinx", *asked)
    assert done.returncode == 0, done.stderr
    pages = {page: page.read_text() for page in tmp_path.rglob("*.html")}
    assert len(pages) > 50
    assert {
        page.name: found for page, text in pages.items() if (found := LOADED.findall(text))
    } == {}
    assert "overlap" in (tmp_path / "searchindex.js").read_text()
    assert "README.html" in (tmp_path / "index.html").read_text()


def test_the_pages_are_spelled_correctly() -> None:
    done = run("codespell_lib", "--ignore-words-list", OUR_WORDS, "--skip", "*.png,*.svg", *PAGES)
    assert (done.stdout, done.stderr) == ("", "")


def test_the_page_about_the_api_has_every_public_name_and_no_other() -> None:
    page = (ROOT / "docs/api.md").read_text()
    whole = set(re.findall(r"automodule:: (\S+)", page))
    single = set(re.findall(r"auto(?:class|function):: (\w+)\n", page))
    assert whole == {"duly.rules", "duly.testing", "duly.errors"}
    errors = set(vars(duly.errors))
    public = {*duly.__all__, *duly._WHERE} - {"__version__"} - errors
    assert single == public


@pytest.mark.parametrize("module", [duly.rules, duly.testing, duly.errors])
def test_every_public_name_says_what_it_is(module: object) -> None:
    names = getattr(module, "__all__", None) or [
        name for name, found in vars(module).items() if isinstance(found, type)
        and found.__module__ == "duly.errors"
    ]  # fmt: skip
    assert names
    assert [name for name in names if not getattr(module, name).__doc__] == []


def run(module: str, *words: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", module, *words]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)

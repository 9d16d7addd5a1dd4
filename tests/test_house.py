"""What is promised about the repository itself: what it says, and that its checks are run."""

import ast
import re
import shutil
import subprocess
import tomllib
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import duly

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src/duly"

REGISTRY = re.compile(r"pypi\.org|pythonhosted\.org|npmjs\.(org|com)")
PATH_OF_ONE_MACHINE = re.compile(r"(?<![\w.~])/(root|work|workspace|home/\w+|Users/\w+)/")

LINK = re.compile(r"\]\(([^)#:]+)(#[^)]*)?\)")
MAKE_TARGET = re.compile(r"(?:`|^\$? *)make ([a-z-]+)", re.MULTILINE)


def test_no_file_names_a_package_registry() -> None:
    assert lines_with(REGISTRY) == []


def test_no_file_names_a_place_on_one_machine() -> None:
    assert lines_with(PATH_OF_ONE_MACHINE) == []


def test_every_relative_link_leads_to_a_file_of_the_repository() -> None:
    files = set(committed_files())
    broken = [
        f"{page.relative_to(ROOT)}: {link}"
        for page in files
        if page.suffix == ".md"
        for link, _ in LINK.findall(page.read_text())
        if not leads_into((page.parent / link).resolve(), files)
    ]
    assert broken == []


def test_no_class_name_is_defined_twice() -> None:
    modules = {path.relative_to(ROOT): ast.parse(path.read_text()) for path in SOURCE.rglob("*.py")}
    places: dict[str, list[str]] = {}
    for path, module in modules.items():
        for node in ast.walk(module):
            if isinstance(node, ast.ClassDef) and node.name != "Meta":  # Django's, inside a model
                places.setdefault(node.name, []).append(str(path))
    assert {name: where for name, where in places.items() if len(where) > 1} == {}


def test_every_make_target_we_speak_of_exists() -> None:
    spoken_of = {
        target
        for page in ("README.md", "CONTRIBUTING.md", "SECURITY.md")
        for target in MAKE_TARGET.findall((ROOT / page).read_text())
    }
    defined = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert spoken_of - defined == set()


@pytest.mark.parametrize("tool", ["ruff format --check", "ruff check", "mypy", "lint-imports"])
def test_make_check_runs(tool: str) -> None:
    asked = ["make", "--dry-run", "--no-print-directory", "check"]
    planned = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert f"/{tool}" in planned


def test_the_installed_version_is_the_one_in_the_source() -> None:
    assert version("duly") == duly.__version__


def test_every_direct_dependency_is_pinned() -> None:
    pinned = {
        canonicalize_name(Requirement(line).name)
        for line in (ROOT / "constraints.txt").read_text().splitlines()
        if not line.startswith("#")
    }
    assert set(direct_dependencies()) - pinned == set(), "run: make pins"


def direct_dependencies() -> Iterator[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    for line in [*project["project"]["dependencies"], *project["dependency-groups"]["dev"]]:
        yield canonicalize_name(Requirement(line).name)


def lines_with(pattern: re.Pattern[str]) -> list[str]:
    return [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in committed_files()
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), start=1)
        if pattern.search(line)
    ]


def committed_files() -> list[Path]:
    """What is committed, or would be by ``git add --all``."""
    if not shutil.which("git") or not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    # The checkout may belong to another user than the one who runs the tests.
    asked = ["git", "-c", f"safe.directory={ROOT}", "ls-files", "-z", "--cached", "--others"]
    listed = subprocess.run(
        [*asked, "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    paths = [ROOT / name for name in listed.split("\0") if name]
    return [path for path in paths if path.is_file()]


def leads_into(target: Path, files: set[Path]) -> bool:
    return target in files or any(target in file.parents for file in files)

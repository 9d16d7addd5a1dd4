"""From a file or a module to its tasks, and what is said when there are none, or too many."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from duly.errors import InvalidValue, NotFound
from duly.registry.app_loading import find, load

APP = """
from duly.registry.definition import define
from duly.registry.registry import Registry

class App:
    def __init__(self):
        self.registry = Registry()

    def task(self, function):
        self.registry.add(define(function))
        return function

duly = App()
"""
TASKS = f"""{APP}
@duly.task
def hello(): ...

named = __name__
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A working directory of its own; what was imported from it is forgotten afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        del sys.modules[name]


def write(path: Path, text: str = TASKS) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_a_file_is_imported_under_its_own_name(folder: Path) -> None:
    write(folder / "tasks_here.py")
    assert load("tasks_here.py").names() == ("hello",)
    assert sys.modules["tasks_here"].named == "tasks_here"


@pytest.mark.parametrize("target", ["./deep/tasks_below.py", "deep/tasks_below.py"])
def test_a_file_elsewhere_finds_what_lies_beside_it(folder: Path, target: str) -> None:
    write(folder / "deep" / "shared_app.py", APP)
    write(
        folder / "deep" / "tasks_below.py",
        "from shared_app import duly\n@duly.task\ndef hello(): ...\n",
    )
    assert load(target).names() == ("hello",)


def test_a_file_is_found_by_its_whole_path(folder: Path) -> None:
    path = write(folder / "elsewhere" / "tasks_absolute.py")
    assert load(str(path)).names() == ("hello",)


def test_a_file_in_a_package_is_imported_as_part_of_it(folder: Path) -> None:
    write(folder / "shop_a" / "__init__.py", "")
    write(folder / "shop_a" / "app.py", APP)
    write(folder / "shop_a" / "tasks.py", "from .app import duly\n@duly.task\ndef hello(): ...\n")
    assert load("shop_a/tasks.py") is load("shop_a.tasks")
    assert load("shop_a.tasks").names() == ("hello",)


def test_a_module_is_found_in_the_working_directory(folder: Path) -> None:
    write(folder / "shop_b" / "tasks.py")
    assert load("shop_b.tasks").names() == ("hello",)


@pytest.mark.parametrize("target", ["tasks_two:other", "tasks_two.py:other"])
def test_one_of_several_apps_is_named(folder: Path, target: str) -> None:
    write(folder / "tasks_two.py", f"{TASKS}\nother = App()\n")
    assert load(target).names() == ()
    with pytest.raises(InvalidValue) as refused:
        load("tasks_two.py")
    assert "choose one with tasks_two.py:duly or tasks_two.py:other" in str(refused.value)


def test_one_app_with_two_names_is_one(folder: Path) -> None:
    write(folder / "tasks_alias.py", f"{TASKS}\nalso = duly\nregistry = duly.registry\n")
    assert load("tasks_alias").names() == ("hello",)
    assert find("tasks_alias") is sys.modules["tasks_alias"].duly


def test_a_bare_registry_will_do(folder: Path) -> None:
    write(
        folder / "tasks_bare.py",
        "from duly.registry.registry import Registry\nknown = Registry()\n",
    )
    assert find("tasks_bare") is load("tasks_bare")


def test_an_object_that_raises_when_it_is_looked_at_is_no_app(folder: Path) -> None:
    lazy = "class Lazy:\n    def __getattr__(self, name): raise RuntimeError(name)\nlazy = Lazy()\n"
    write(folder / "tasks_lazy.py", f"{lazy}{TASKS}")
    assert load("tasks_lazy.py").names() == ("hello",)


@pytest.mark.parametrize(
    ("target", "error", "said"),
    [
        ("nowhere.py", NotFound, "there is no file .*nowhere.py; that folder has .*: name one"),
        ("gone/tasks.py", NotFound, "there is no folder .*gone, either"),
        ("nowhere", NotFound, 'there is no module "nowhere"'),
        ("nowhere.tasks:duly", NotFound, 'there is no module "nowhere" for "nowhere.tasks"'),
        (
            "tasks_empty.py",
            NotFound,
            'no app in "tasks_empty.py": create one there with duly = Duly',
        ),
        ("tasks_empty:duly", NotFound, 'has no "duly"; it defines these apps of duly: none'),
        ("tasks_empty:number", NotFound, "is not a Duly app"),
        ("", InvalidValue, "name a file or a module"),
        (":duly", InvalidValue, "name a file or a module"),
        (".tasks", InvalidValue, "neither a file such as tasks.py nor a module"),
        ("my tasks", InvalidValue, "neither a file"),
    ],
)
def test_what_is_not_there_is_told_with_what_to_do(
    folder: Path, target: str, error: type[Exception], said: str
) -> None:
    write(folder / "tasks_empty.py", "number = 5\n")
    with pytest.raises(error, match=said):
        load(target)


def test_a_file_that_hides_behind_another_module_is_told_so(folder: Path) -> None:
    write(folder / "json.py")
    with pytest.raises(InvalidValue, match=r"would be imported as `json`, .*rename the file"):
        load("json.py")


@pytest.mark.parametrize("code", ["import no_such_thing", "int('x')", "from shop_c import nope"])
def test_an_error_in_the_users_own_code_is_left_as_it_is(folder: Path, code: str) -> None:
    write(folder / "shop_c" / "__init__.py", "")
    write(folder / "tasks_broken.py", code)
    with pytest.raises((ImportError, ValueError)) as raised:
        load("tasks_broken.py")
    assert not isinstance(raised.value, InvalidValue | NotFound)


def test_another_process_finds_the_tasks_of_a_script_under_the_same_names(folder: Path) -> None:
    path = write(folder / "tasks_script.py", f"{TASKS}\nif __name__ == '__main__': 1 / 0\n")
    program = f"from duly.registry.app_loading import load; print(load({str(path)!r}).signatures())"
    asked = [sys.executable, "-c", program]
    said = subprocess.run(asked, capture_output=True, text=True, check=True, cwd="/").stdout
    assert said.strip() == str(load(str(path)).signatures())

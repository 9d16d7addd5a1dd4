"""The file is the nearest one, and what it names is found from anywhere below it."""

import subprocess
import sys
from pathlib import Path

import pytest

from duly.errors import InvalidValue
from duly.settings import load


def test_without_a_file_everything_is_here(tmp_path: Path) -> None:
    settings = load({}, {}, tmp_path)
    assert (settings.file, settings.folder) == (None, tmp_path)
    assert settings.url == str(tmp_path / "duly.db")


def test_a_file_above_counts_and_its_paths_begin_there(tmp_path: Path) -> None:
    below = folder(tmp_path / "shop" / "deep")
    (tmp_path / "duly.toml").write_text(
        'app = "shop/tasks.py:duly"\nurl = "data/duly.db"\nschedules_file = "../schedules.toml"\n'
    )
    settings = load({}, {}, below)
    assert (settings.file, settings.folder) == (tmp_path / "duly.toml", tmp_path)
    assert settings.app == f"{tmp_path}/shop/tasks.py:duly"
    assert settings.url == f"{tmp_path}/data/duly.db"
    assert settings.schedules_file == f"{tmp_path}/../schedules.toml"


def test_a_store_that_nobody_names_is_beside_the_file(tmp_path: Path) -> None:
    (tmp_path / "duly.toml").write_text("")
    settings = load({}, {}, folder(tmp_path / "below"))
    assert (settings.url, settings.origin("url")) == (f"{tmp_path}/duly.db", "default")


def test_what_is_typed_or_in_the_environment_begins_where_the_command_is_called(
    tmp_path: Path,
) -> None:
    below = folder(tmp_path / "below")
    (tmp_path / "duly.toml").write_text('url = "above.db"\n')
    assert load({"url": "typed.db"}, {}, below).url == f"{below}/typed.db"
    assert load({}, {"DULY_URL": "said.db"}, below).url == f"{below}/said.db"


def test_modules_and_addresses_are_no_paths(tmp_path: Path) -> None:
    (tmp_path / "duly.toml").write_text('app = "shop.tasks:duly"\nurl = "postgresql://db/shop"\n')
    settings = load({}, {}, tmp_path)
    assert (settings.app, settings.url) == ("shop.tasks:duly", "postgresql://db/shop")


def test_only_the_nearest_file_counts(tmp_path: Path) -> None:
    below = folder(tmp_path / "below")
    (tmp_path / "duly.toml").write_text("port = 1\nconcurrency = 3\n")
    (below / "pyproject.toml").write_text("[tool.duly]\nport = 2\n")
    settings = load({}, {}, below)
    assert (settings.port, settings.concurrency) == (2, 10)
    assert settings.file == below / "pyproject.toml"


@pytest.mark.parametrize(
    "project",
    [
        '[project]\nname = "shop"\n',
        '[project]\ndependencies = ["duly"]\n[tool.ruff]\n',
        "this is ]",
    ],
)
def test_a_project_without_our_table_is_passed_over(tmp_path: Path, project: str) -> None:
    below = folder(tmp_path / "below")
    (tmp_path / "duly.toml").write_text("port = 1\n")
    (below / "pyproject.toml").write_text(project)
    assert load({}, {}, below).file == tmp_path / "duly.toml"


def test_an_empty_table_ends_the_search(tmp_path: Path) -> None:
    below = folder(tmp_path / "below")
    (tmp_path / "duly.toml").write_text("port = 1\n")
    (below / "pyproject.toml").write_text("[tool.duly]\n")
    assert (load({}, {}, below).file, load({}, {}, below).port) == (below / "pyproject.toml", 8400)


def test_two_files_in_one_folder_are_refused(tmp_path: Path) -> None:
    (tmp_path / "duly.toml").write_text("port = 1\n")
    (tmp_path / "pyproject.toml").write_text("[tool.duly]\nport = 2\n")
    assert refused(tmp_path) == (
        f"{tmp_path} has both duly.toml and [tool.duly] in pyproject.toml: keep duly.toml, with "
        "what the table says moved into it, and remove [tool.duly]"
    )


def test_a_project_beside_our_file_may_say_other_things(tmp_path: Path) -> None:
    (tmp_path / "duly.toml").write_text("port = 1\n")
    (tmp_path / "pyproject.toml").write_text('[project]\ndependencies = ["duly"]\n')
    assert load({}, {}, tmp_path).port == 1


def test_a_folder_for_everybody_is_not_asked_from_below(tmp_path: Path) -> None:
    below = folder(tmp_path / "below")
    (tmp_path / "duly.toml").write_text('allow = ["shell"]\n')
    tmp_path.chmod(0o1777)
    assert load({}, {}, below).file is None
    assert load({}, {}, tmp_path).file == tmp_path / "duly.toml"
    tmp_path.chmod(0o777)
    assert load({}, {}, below).file == tmp_path / "duly.toml"


def test_a_folder_called_like_the_file_is_none(tmp_path: Path) -> None:
    folder(tmp_path / "duly.toml")
    folder(tmp_path / "pyproject.toml")
    assert load({}, {}, tmp_path).file is None


@pytest.mark.parametrize("name", ["duly.toml", "pyproject.toml"])
def test_a_file_that_is_not_toml_is_refused_with_the_place(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("[tool.duly]\nport = \n")
    assert (
        refused(tmp_path) == f"{tmp_path / name} is not TOML: Invalid value (at line 2, column 8)"
    )


def test_a_file_that_is_not_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "duly.toml").write_bytes(b"zone = '\xff'")
    assert refused(tmp_path) == f"{tmp_path / 'duly.toml'} is not UTF-8: save it as that"


def test_a_file_that_may_not_be_read_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The mode of a file does not stop root, who may run the tests.
    def forbidden(*_: object) -> str:
        raise PermissionError(13, "Permission denied")

    (tmp_path / "duly.toml").write_text("")
    monkeypatch.setattr(Path, "read_text", forbidden)
    assert refused(tmp_path) == f"{tmp_path / 'duly.toml'} cannot be read: Permission denied"


def test_a_value_where_our_table_should_be_is_refused(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool]\nduly = 3\n")
    expected = f"{tmp_path / 'pyproject.toml'}: duly in [tool] is not a table: write [tool.duly]"
    assert refused(tmp_path) == expected


@pytest.mark.parametrize(("file", "needed"), [(None, "False"), ("duly.toml", "True")])
def test_toml_is_only_imported_for_a_file(tmp_path: Path, file: str | None, needed: str) -> None:
    if file:
        (tmp_path / file).write_text("")
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "shop"\n')
    program = (
        "import sys; from pathlib import Path; from duly.settings import load; "
        "load({}, {'DULY_PORT': '3'}, Path.cwd()); print('tomllib' in sys.modules)"
    )
    asked = [sys.executable, "-c", program]
    done = subprocess.run(asked, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout == f"{needed}\n"


def folder(path: Path) -> Path:
    path.mkdir(parents=True)
    return path


def refused(here: Path) -> str:
    with pytest.raises(InvalidValue) as error:
        load({}, {}, here)
    return str(error.value)

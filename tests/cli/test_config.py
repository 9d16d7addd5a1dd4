"""``duly config``: every setting, its value and where it was said."""

import json
from dataclasses import fields
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from duly.cli.main import main
from duly.settings import Settings
from duly.settings.settings import keys

NOT_SAID = {"file", "folder", "origins"}  # where settings were found, and no settings


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for key in keys().values():
        for variable in key.variables:
            monkeypatch.delenv(variable, raising=False)
    return tmp_path


def duly_config(*words: str, **environ: str) -> Result:
    return CliRunner().invoke(main, ["config", *words], env=environ)


def test_every_setting_is_shown() -> None:
    names = [field.name for field in fields(Settings) if field.name not in NOT_SAID]
    lines = duly_config().stdout.splitlines()
    assert [line.split()[0] for line in lines] == ["SETTING", *names]
    assert list(json.loads(duly_config("-o", "json").stdout)["settings"]) == names


def test_values_come_with_where_they_were_said(here: Path) -> None:
    (here / "duly.toml").write_text('queues = ["mail", "default"]\nport = 80\n')
    done = duly_config(DULY_PORT="90")
    assert (done.exit_code, done.stderr) == (0, f"file: {here}/duly.toml\n")
    rows = {line.split()[0]: line.split()[1:] for line in done.stdout.splitlines()}
    assert rows["SETTING"] == ["VALUE", "FROM"]
    assert rows["queues"] == ["mail,", "default", "duly.toml"]
    assert rows["port"] == ["90", "DULY_PORT"]
    assert rows["host"] == ["127.0.0.1", "default"]
    assert rows["url"] == [f"{here}/duly.db", "default"]


def test_programs_get_values_as_they_are(here: Path) -> None:
    (here / "pyproject.toml").write_text('[tool.duly]\nallow = ["shell"]\nlease = "1m"\n')
    done = duly_config("-o", "json")
    told = json.loads(done.stdout)
    assert (done.exit_code, told["file"]) == (0, f"{here}/pyproject.toml")
    settings = told["settings"]
    assert settings["allow"] == {
        "value": ["shell"],
        "from": "pyproject.toml",
        "about": "Built-in tasks that may run: shell (and commands), http, send.",
    }
    assert settings["lease"]["value"] == "1m"
    assert settings["zone"]["value"] is None
    assert settings["concurrency"] == settings["concurrency"] | {"value": 10, "from": "default"}


def test_it_says_that_there_is_no_file(here: Path) -> None:
    done = duly_config()
    assert done.stderr == (
        f"file: none: no duly.toml and no [tool.duly] in a pyproject.toml, here ({here}) or above\n"
    )
    assert json.loads(duly_config("-o", "json").stdout)["file"] is None


def test_a_password_is_never_told() -> None:
    for output in ("table", "json"):
        done = duly_config("-o", output, DULY_URL="postgresql://ada:secret@db/shop")
        assert "postgresql://ada:***@db/shop" in done.stdout
        assert "secret" not in done.output


def test_what_cannot_be_is_a_mistake_of_usage() -> None:
    done = duly_config(DULY_QUEUE="mail")
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr == (
        "Error: the environment: no setting is called DULY_QUEUE (did you mean DULY_QUEUES?)\n"
    )


def test_asking_makes_nothing(here: Path) -> None:
    duly_config()
    assert list(here.iterdir()) == []

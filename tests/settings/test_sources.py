"""Each setting is typed, said by the environment, written in a file, or left as it is."""

from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path

import pytest

from duly.settings import Settings, load
from duly.settings.settings import keys
from duly.settings.tables import AlertSettings, TargetSettings

HERE = "{here}"  # where the command is called, and the file is


@dataclass(frozen=True)
class Example:
    """One setting, said in each of the three ways, always as something else."""

    flag: str
    variable: str
    toml: str
    found: tuple[object, object, object]
    default: object


EXAMPLES = {
    "app": Example(
        "one.py:duly",
        "shop.tasks",
        '"three.py"',
        ("one.py:duly", "shop.tasks", f"{HERE}/three.py"),
        None,
    ),
    "url": Example(
        "one.db",
        "postgresql://ada:secret@db/two",
        '"sqlite:///three.db"',
        (f"{HERE}/one.db", "postgresql://ada:secret@db/two", f"{HERE}/three.db"),
        f"{HERE}/duly.db",
    ),
    "token_file": Example(
        "one",
        "/two",
        '"keys/three"',
        (f"{HERE}/one", "/two", f"{HERE}/keys/three"),
        None,
    ),
    "zone": Example(
        "UTC",
        "Europe/Berlin",
        '"Asia/Tokyo"',
        ("UTC", "Europe/Berlin", "Asia/Tokyo"),
        None,
    ),
    "imports": Example(
        "one",
        "shop.mail, shop.web",
        '["three", "four"]',
        (("one",), ("shop.mail", "shop.web"), ("three", "four")),
        (),
    ),
    "schedules_file": Example(
        "one.toml",
        "/two.toml",
        '"ops/three.toml"',
        (f"{HERE}/one.toml", "/two.toml", f"{HERE}/ops/three.toml"),
        None,
    ),
    "queues": Example(
        "one,default",
        "two",
        '["three"]',
        (("one", "default"), ("two",), ("three",)),
        ("default",),
    ),
    "concurrency": Example("1", "2", "3", (1, 2, 3), 10),
    "processes": Example("2", "3", "4", (2, 3, 4), 1),
    "lease": Example(
        "10s",
        "20s",
        '"1m30s"',
        (timedelta(seconds=10), timedelta(seconds=20), timedelta(seconds=90)),
        timedelta(seconds=15),
    ),
    "stop_timeout": Example(
        "10s",
        "20s",
        '"1m30s"',
        (timedelta(seconds=10), timedelta(seconds=20), timedelta(seconds=90)),
        timedelta(seconds=25),
    ),
    "host": Example("0.0.0.0", "::1", '"web"', ("0.0.0.0", "::1", "web"), "127.0.0.1"),  # noqa: S104
    "port": Example("1", "2", "3", (1, 2, 3), 8400),
    "web": Example("on", "no", "false", (True, False, False), True),
    "hosts": Example(
        "one.example",
        "two.example, three.example",
        '["four.example"]',
        (("one.example",), ("two.example", "three.example"), ("four.example",)),
        (),
    ),
    "trust_header": Example(
        "X-User",
        "X-Forwarded-User",
        '"Remote-User"',
        ("x-user", "x-forwarded-user", "remote-user"),
        None,
    ),
    "trust_networks": Example(
        "10.0.0.2/32",
        "10.0.0.0/8, 192.168.0.0/16",
        '["::1/128"]',
        (("10.0.0.2/32",), ("10.0.0.0/8", "192.168.0.0/16"), ("::1/128",)),
        (),
    ),
    "trust_role": Example(
        "operator", "admin", '"viewer"', ("operator", "admin", "viewer"), "viewer"
    ),
    "allow": Example(
        "shell,http", "http", '["shell"]', (("shell", "http"), ("http",), ("shell",)), ()
    ),
    "allow_networks": Example(
        "10.0.0.0/8",
        "192.168.1.7",
        '["fd00::/8", "10.1.0.0/16"]',
        (("10.0.0.0/8",), ("192.168.1.7/32",), ("fd00::/8", "10.1.0.0/16")),
        (),
    ),
    "allow_signing": Example(
        "HOOK_SECRET",
        "HOOK_SECRET, DIGEST_SECRET",
        '["OTHER_SECRET"]',
        (("HOOK_SECRET",), ("HOOK_SECRET", "DIGEST_SECRET"), ("OTHER_SECRET",)),
        (),
    ),
    "keep_history": Example(
        "1d",
        "2d",
        '"3d"',
        (timedelta(days=1), timedelta(days=2), timedelta(days=3)),
        timedelta(days=14),
    ),
    "keep_failed": Example(
        "1d",
        "2d",
        '"3d"',
        (timedelta(days=1), timedelta(days=2), timedelta(days=3)),
        timedelta(days=30),
    ),
    "keep_fires": Example(
        "1d",
        "2d",
        '"3d"',
        (timedelta(days=1), timedelta(days=2), timedelta(days=3)),
        timedelta(days=90),
    ),
    "alerts": Example(
        '{"name": "one"}',
        '{"name": "two"}',
        '{ name = "three" }',
        (AlertSettings(name="one"), AlertSettings(name="two"), AlertSettings(name="three")),
        None,
    ),
    "targets": Example(
        '{"one": {"kind": "redis", "url": "redis://one"}}',
        '{"two": {"kind": "celery", "app": "shop:app"}}',
        '{ three = { kind = "rq", url = "redis://three", queue = "mail" } }',
        (
            (TargetSettings(name="one", kind="redis", url="redis://one", reports=False),),
            (TargetSettings(name="two", kind="celery", app="shop:app"),),
            (TargetSettings(name="three", kind="rq", url="redis://three", queue="mail"),),
        ),
        (),
    ),
    "log_level": Example("debug", "WARNING", '"error"', ("debug", "warning", "error"), "info"),
    "log_format": Example("json", "JSON", '"json"', ("json", "json", "json"), "text"),
    "verbose": Example("on", "1", "true", (True, True, True), False),
}

every_setting = pytest.mark.parametrize("name", EXAMPLES)


def test_every_setting_has_an_example() -> None:
    assert list(EXAMPLES) == list(keys())


@every_setting
def test_what_nobody_says_is_the_default(tmp_path: Path, name: str) -> None:
    settings = load({}, {}, tmp_path)
    assert getattr(settings, name) == at(tmp_path, EXAMPLES[name].default)
    assert settings.origin(name) == "default"


@every_setting
def test_a_file_wins_over_the_default(tmp_path: Path, name: str) -> None:
    (tmp_path / "duly.toml").write_text(f"{name} = {EXAMPLES[name].toml}\n")
    settings = load({}, {}, tmp_path)
    assert getattr(settings, name) == at(tmp_path, EXAMPLES[name].found[2])
    assert settings.origin(name) == "duly.toml"


@every_setting
def test_a_table_of_the_project_says_the_same_as_a_file(tmp_path: Path, name: str) -> None:
    (tmp_path / "pyproject.toml").write_text(f"[tool.duly]\n{name} = {EXAMPLES[name].toml}\n")
    settings = load({}, {}, tmp_path)
    assert getattr(settings, name) == at(tmp_path, EXAMPLES[name].found[2])
    assert settings.origin(name) == "pyproject.toml"


@every_setting
def test_the_environment_wins_over_a_file(tmp_path: Path, name: str) -> None:
    (tmp_path / "duly.toml").write_text(f"{name} = {EXAMPLES[name].toml}\n")
    variable = f"DULY_{name.upper()}"
    settings = load({}, {variable: EXAMPLES[name].variable}, tmp_path)
    assert getattr(settings, name) == at(tmp_path, EXAMPLES[name].found[1])
    assert settings.origin(name) == variable


@every_setting
def test_what_is_typed_wins_over_everything(tmp_path: Path, name: str) -> None:
    (tmp_path / "duly.toml").write_text(f"{name} = {EXAMPLES[name].toml}\n")
    environ = {f"DULY_{name.upper()}": EXAMPLES[name].variable}
    settings = load({name: EXAMPLES[name].flag}, environ, tmp_path)
    assert getattr(settings, name) == at(tmp_path, EXAMPLES[name].found[0])
    typed = {"app": "APP", "url": "--store"}.get(name, f"--{name.replace('_', '-')}")
    assert settings.origin(name) == typed


@every_setting
def test_a_value_that_was_read_already_may_be_given_as_it_is(tmp_path: Path, name: str) -> None:
    once = load({name: EXAMPLES[name].flag}, {}, tmp_path)
    assert load({name: getattr(once, name)}, {}, tmp_path) == once


@every_setting
def test_what_is_not_typed_and_what_is_empty_says_nothing(tmp_path: Path, name: str) -> None:
    settings = load({name: None}, {f"DULY_{name.upper()}": ""}, tmp_path)
    assert settings.origin(name) == "default"


def test_a_switch_can_be_turned_off_again(tmp_path: Path) -> None:
    (tmp_path / "duly.toml").write_text("verbose = true\n")
    assert load({}, {}, tmp_path).verbose is True
    assert load({}, {"DULY_VERBOSE": "no"}, tmp_path).verbose is False
    assert load({"verbose": False}, {"DULY_VERBOSE": "yes"}, tmp_path).verbose is False


@pytest.mark.parametrize("name", ["allow", "allow_networks", "imports"])
def test_none_takes_back_what_a_file_says(tmp_path: Path, name: str) -> None:
    (tmp_path / "duly.toml").write_text(f"{name} = {EXAMPLES[name].toml}\n")
    settings = load({}, {f"DULY_{name.upper()}": "none"}, tmp_path)
    assert (getattr(settings, name), settings.origin(name)) == ((), f"DULY_{name.upper()}")


def test_the_store_has_two_names_in_the_environment(tmp_path: Path) -> None:
    second = load({}, {"DULY_STORE": "/two.db"}, tmp_path)
    assert (second.url, second.origin("url")) == ("/two.db", "DULY_STORE")
    both = load({}, {"DULY_STORE": "/two.db", "DULY_URL": "/one.db"}, tmp_path)
    assert (both.url, both.origin("url")) == ("/one.db", "DULY_URL")


def test_sources_are_mixed_setting_by_setting(tmp_path: Path) -> None:
    (tmp_path / "duly.toml").write_text('queues = ["mail"]\nconcurrency = 5\nport = 80\n')
    settings = load({"port": 90}, {"DULY_CONCURRENCY": "6"}, tmp_path)
    assert settings == replace(
        Settings(),
        url=str(tmp_path / "duly.db"),
        queues=("mail",),
        concurrency=6,
        port=90,
        file=tmp_path / "duly.toml",
        folder=tmp_path,
        origins={"queues": "duly.toml", "concurrency": "DULY_CONCURRENCY", "port": "--port"},
    )


def at(here: Path, value: object) -> object:
    return value.replace(HERE, str(here)) if isinstance(value, str) else value

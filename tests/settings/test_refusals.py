"""What cannot be is refused by its name, with what was found and what is possible."""

from pathlib import Path

import pytest

from duly.errors import InvalidValue
from duly.settings import load

MODULES = '"tasks.py", "shop.tasks" or "shop.tasks:duly"'

VARIABLES = {
    "DULY_APP": {
        ":duly": f"=:duly: a file or a module, as {MODULES}",
        "schedules.toml": "=schedules.toml: an app is Python; a file of schedules is "
        "schedules_file",
    },
    "DULY_URL": {
        "mysql://ada:secret@db/shop": ': "mysql:" is not a database; use sqlite:///path, '
        "postgresql:// or https://",
        "postgresql:/ada:secret@db": ": a PostgreSQL database is postgresql://user@host/database",
        "http://ada.example": ": a token would be read on the way to http://ada.example: say "
        "https://; http:// is for this machine, as http://127.0.0.1:8400",
        "sqlite://duly.db": ": an SQLite database is a path, as duly.db, or sqlite:///duly.db",
        **dict.fromkeys(
            (
                "postgresql://ada:secret/x@db/shop",
                "postgres://ada:se/cr?e@t@db/shop",
                "postgresql://ada:secret@x@db/shop",
                "postgresql://ada:secret?x@db/shop",
                "postgresql://ada:1?secret@db/shop",
                "postgresql://ada:secret#x@db/shop",
            ),
            ": a PostgreSQL database is postgresql://user:password@host:5432/database; in a user "
            "or a password, write / as %2F, @ as %40, ? as %3F, # as %23",
        ),
        **dict.fromkeys(
            ("host=db password=secret dbname=shop", " PASSWORD = secret"),
            ": a PostgreSQL database is postgresql://user@host/database, and not host=… dbname=…; "
            "for a file of such a name, say ./…",
        ),
        ":memory:": (
            ": an in-memory database would be a different one for every process; give the path "
            "of a file"
        ),
    },
    "DULY_ZONE": {
        "Europe/Berlim": '=Europe/Berlim: "Europe/Berlim" is not a time zone; did you mean '
        "Europe/Berlin or Europe/Dublin?",
    },
    "DULY_IMPORTS": {"shop/tasks.py": '=shop/tasks.py: "shop/tasks.py" is no module, as '
                     "shop.tasks is one"},
    "DULY_SCHEDULES_FILE": {"crontab": '=crontab: a file, as "schedules.toml"'},
    "DULY_QUEUES": {"mail,,default": "=mail,,default: a name must not be empty"},
    "DULY_CONCURRENCY": {
        "many": "=many: a whole number from 1 to 10000",
        "0": "=0: a whole number from 1 to 10000",
        "1.5": "=1.5: a whole number from 1 to 10000",
        "9" * 5_000: f"={'9' * 60}…: a whole number from 1 to 10000",
    },
    "DULY_PROCESSES": {"257": "=257: a whole number from 1 to 256"},
    "DULY_LEASE": {
        "15": '=15: "15" is not a duration: write "15s" or "15m"',
        "1s": "=1s: from 2s to 10m",
        "1d": "=1d: from 2s to 10m",
    },
    "DULY_HOST": {
        "http://web": '=http://web: a name or an address of this machine, as "127.0.0.1" or "::1"',
        "0.0.0.0:80": '=0.0.0.0:80: a host without a port: host "0.0.0.0" and port 80',
    },
    "DULY_PORT": {"65536": "=65536: a whole number from 0 to 65535"},
    "DULY_ALLOW": {
        "shel": '=shel: "shel" is none: there are shell, http, send; did you mean shell?',
        "all": '=all: "all" is none: there are shell, http, send',
    },
    "DULY_ALLOW_NETWORKS": {
        "intranet": '=intranet: "intranet" is no network, as 10.0.0.0/8 is one',
        "10.1.2.3/8": '=10.1.2.3/8: "10.1.2.3/8" is an address within a network: say 10.0.0.0/8',
    },
    "DULY_KEEP_HISTORY": {"0s": "=0s: from 1ms to 36600d"},
    "DULY_KEEP_FAILED": {"30": '=30: "30" is not a duration: write "30s" or "30m"'},
    "DULY_KEEP_FIRES": {
        "ever": '=ever: "ever" is not a duration; write it as "90s", "5m", "1h30m" or "2d"'
    },
    "DULY_LOG_LEVEL": {"warn": "=warn: one of debug, info, warning, error; did you mean warning?"},
    "DULY_VERBOSE": {"very": "=very: true or false"},
}  # fmt: skip


@pytest.mark.parametrize(
    ("variable", "value", "expected"),
    [(name, value, said) for name, cases in VARIABLES.items() for value, said in cases.items()],
)
def test_a_value_that_cannot_be(tmp_path: Path, variable: str, value: str, expected: str) -> None:
    assert refused(tmp_path, environ={variable: value}) == f"{variable}{expected}"


WRITTEN = {
    "app = 3": f"app = 3: a file or a module, as {MODULES}",
    "url = 3": "url: an SQLite database is a path, as duly.db, or sqlite:///duly.db",
    'url = "mysql://ada:secret@db"': 'url: "mysql:" is not a database; use sqlite:///path, '
    "postgresql:// or https://",
    "zone = true": 'zone = true: a time zone by its name, as "Europe/Berlin"',
    'imports = "shop.tasks"': 'imports = "shop.tasks": several names, as ["shop.tasks"]',
    'queues = "mail"': 'queues = "mail": several names, as ["default"]',
    "queues = []": 'queues = []: one name at least, as ["default"]',
    "queues = [1]": 'queues = [1]: several names, as ["default"]',
    'concurrency = "5"': 'concurrency = "5": a whole number from 1 to 10000',
    "concurrency = true": "concurrency = true: a whole number from 1 to 10000",
    "lease = 15": 'lease = 15: 15 is not a duration: write "15s" or "15m"',
    "lease = true": 'lease = true: a length of time, as "90s", "5m" or "2d"',
    "host = 1": 'host = 1: a name or an address of this machine, as "127.0.0.1" or "::1"',
    'port = "80"': 'port = "80": a whole number from 0 to 65535',
    'allow = "shell"': 'allow = "shell": several names, as ["shell"]',
    'allow = ["Shell"]': 'allow = ["Shell"]: "Shell" is none: there are shell, http, send; did you '
    "mean shell?",
    "keep_fires = 2027-01-01": 'keep_fires = "2027-01-01": a length of time, as "90s", "5m" or '
    '"2d"',
    "log_level = 3": "log_level = 3: one of debug, info, warning, error",
    'verbose = "true"': 'verbose = "true": true or false',
    "schedules_file = []": 'schedules_file = []: a file, as "schedules.toml"',
}


@pytest.mark.parametrize(("line", "expected"), WRITTEN.items())
def test_a_line_of_a_file_that_cannot_be(tmp_path: Path, line: str, expected: str) -> None:
    (tmp_path / "duly.toml").write_text(line)
    assert refused(tmp_path) == f"{tmp_path}/duly.toml: {expected}"


def test_a_value_that_was_typed_and_cannot_be(tmp_path: Path) -> None:
    assert refused(tmp_path, flags={"port": "http"}) == (
        "--port http: a whole number from 0 to 65535"
    )
    assert refused(tmp_path, flags={"url": "mysql://ada:secret@db"}) == (
        '--store: "mysql:" is not a database; use sqlite:///path, postgresql:// or https://'
    )


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ('queue = ["mail"]', "queue (did you mean queues?)"),
        ("allow-networks = []", "allow-networks (did you mean allow_networks?)"),
        ('store = "duly.db"', "store (did you mean url?)"),
        ('timezone = "UTC"\nprot = 3', "timezone (did you mean zone?), prot (did you mean port?)"),
    ],
)
def test_an_unknown_key_is_refused_with_what_was_meant(
    tmp_path: Path, line: str, expected: str
) -> None:
    (tmp_path / "duly.toml").write_text(f"{line}\n")
    assert refused(tmp_path) == f"{tmp_path}/duly.toml: no setting is called {expected}"


def test_an_unknown_key_that_is_like_none_is_told_which_there_are(tmp_path: Path) -> None:
    (tmp_path / "duly.toml").write_text("colour = 3\n")
    said = refused(tmp_path)
    assert said.startswith(f"{tmp_path}/duly.toml: no setting is called colour; there are app, url")


def test_schedules_have_a_file_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "duly.toml").write_text('[schedules.backup]\nrule = "every 5m"\n')
    assert refused(tmp_path) == (
        f"{tmp_path}/duly.toml: [schedules] belongs into a file of its own, which this one names: "
        'schedules_file = "schedules.toml"'
    )


def test_unknown_variables_are_refused_all_at_once(tmp_path: Path) -> None:
    environ = {"DULY_QUEUE": "mail", "DULY_TIMEZONE": "UTC", "DULY_PORT": "3", "PATH": "/bin"}
    assert refused(tmp_path, environ=environ) == (
        "the environment: no setting is called DULY_QUEUE (did you mean DULY_QUEUES?), "
        "DULY_TIMEZONE (did you mean DULY_ZONE?)"
    )


def test_an_unknown_variable_that_is_like_none_is_told_which_there_are(tmp_path: Path) -> None:
    said = refused(tmp_path, environ={"DULY_COLOUR": "red"})
    assert said.startswith(
        "the environment: no setting is called DULY_COLOUR; there are DULY_APP, DULY_URL, "
        "DULY_STORE, DULY_TOKEN_FILE, DULY_ZONE"
    )


def test_an_unknown_name_of_a_flag_is_refused(tmp_path: Path) -> None:
    assert refused(tmp_path, flags={"queue": "mail"}) == (
        "asked for: no setting is called queue (did you mean queues?)"
    )
    with pytest.raises(InvalidValue, match="no setting is called queue"):
        load({}, {}, tmp_path).origin("queue")


def test_what_kubernetes_says_of_a_service_is_not_for_us(tmp_path: Path) -> None:
    environ = {
        "DULY_SERVICE_HOST": "10.0.0.1",
        "DULY_SERVICE_PORT": "80",
        "DULY_SERVICE_PORT_HTTP": "80",
        "DULY_PORT": "tcp://10.0.0.1:80",
        "DULY_PORT_80_TCP": "tcp://10.0.0.1:80",
        "DULY_PORT_80_TCP_ADDR": "10.0.0.1",
        "DULY_WEB_PORT": "tcp://10.0.0.1:80",
        "DULY_WEB_SERVICE_HOST": "10.0.0.1",
    }
    settings = load({}, environ, tmp_path)
    assert (settings.port, settings.origins) == (8400, {})


def refused(
    here: Path, *, flags: dict[str, object] | None = None, environ: dict[str, str] | None = None
) -> str:
    with pytest.raises(InvalidValue) as error:
        load(flags or {}, environ or {}, here)
    return str(error.value)

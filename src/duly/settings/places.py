"""Settings that name a place: a store, an app, a file.

A place that a file names is relative to that file, wherever the command is called from. One that is
typed, or said by the environment, is relative to where the command is called.
"""

import os
import re
from pathlib import Path
from typing import Final

from duly.errors import InvalidValue
from duly.settings.kinds import Kind

HIDDEN: Final = "***"

_POSTGRES = ("postgresql://", "postgres://")
_REMOTE = ("https://", "http://")
_LOOPBACK = re.compile(r"localhost|127(?:\.\d{1,3}){3}|::1")
_SCHEME = re.compile(r"([a-zA-Z][a-zA-Z0-9+.]*):")
# To the last @: who forgot to write a password's own / or @ as %2F or %40 has a secret, too.
_USER = re.compile(r"//([^:@/]*):.*@", re.DOTALL)
# What psql and libpq take as well: host=… dbname=…
_WORDS = re.compile(
    r"\s*(?:host|hostaddr|port|dbname|user|password|passfile|service|sslmode|options)\s*=",
    re.IGNORECASE,
)
# What is before @ has its own / ? # @ as %2F %3F %23 %40: read otherwise, a part of a password
# would be the name of a host or a database, and repeated wherever those are.
_ADDRESS = re.compile(
    r"//(?:[^@/?#]*@)?(?:\[[^\]@/?#]*\]|[^@/?#:,\[\]]*)(?::\d*)?"
    r"(?:,(?:\[[^\]@/?#]*\]|[^@/?#:,\[\]]*)(?::\d*)?)*"
    r"(?:/[^@/?#]*)?(?:\?(?:[^=&#]+=[^&#]*(?:&|$))*)?",
    re.ASCII,
)
_PASSWORD = re.compile(r"(?<=[?&])((?:ssl)?password=)[^&]*", re.IGNORECASE)


def check_address(url: str) -> None:
    """Refuse an address whose password would be taken for something else, and shown."""
    if url.startswith(_POSTGRES) and not _ADDRESS.fullmatch(url, url.index("//")):
        raise InvalidValue(
            "a PostgreSQL store is postgresql://user:password@host:5432/database; in a user or a "
            "password, write / as %2F, @ as %40, ? as %3F, # as %23"
        )
    if url.startswith(_REMOTE):
        _check_remote(url)
    if _WORDS.match(url):
        raise InvalidValue(
            "a PostgreSQL store is postgresql://user@host/database, and not host=… dbname=…; "
            "for a file of such a name, say ./…"
        )


def _check_remote(url: str) -> None:
    """A token is shown with every call: only to who it is for, and read by nobody between."""
    from urllib.parse import urlsplit  # noqa: PLC0415 - few have any

    refusal = InvalidValue(
        "a duly elsewhere is https://host, https://host:port or https://host/path; its token is in "
        "a file: --token-file FILE"
    )
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        raise refusal from None
    if not host or parts.query or parts.fragment or "@" in parts.netloc or not url.isprintable():
        raise refusal
    if parts.scheme == "http" and not _LOOPBACK.fullmatch(host):
        raise InvalidValue(
            f"a token would be read on the way to http://{parts.netloc}: say https://; http:// is "
            "for this machine, as http://127.0.0.1:8400"
        )


class Place(Kind[str]):
    def seen_from(self, value: str, folder: Path) -> str:
        """The place as it is named from anywhere; ``folder`` is where it was said."""
        return str(folder / value)


class Store(Place):
    secret = True

    def read(self, value: object) -> str:
        path = value.removeprefix("sqlite:///") if isinstance(value, str) else ""
        scheme = _SCHEME.match(path)
        if path == ":memory:":
            raise InvalidValue("a store in memory is another one for every process; name a file")
        check_address(path)
        if path.startswith((*_POSTGRES, *_REMOTE)) or (path and scheme is None):
            return path
        if scheme is None or scheme[1].lower() in ("sqlite", "file"):
            raise InvalidValue("an SQLite store is a path, as duly.db, or sqlite:///duly.db")
        if scheme[1].lower().startswith("postgres"):
            raise InvalidValue("a PostgreSQL store is postgresql://user@host/database")
        raise InvalidValue(
            f'"{scheme[1]}:" is no store; there are sqlite:///path, postgresql:// and https://'
        )

    def seen_from(self, value: str, folder: Path) -> str:
        return value if value.startswith((*_POSTGRES, *_REMOTE)) else str(folder / value)

    def plain(self, value: str) -> object:
        if not value.startswith(_POSTGRES):
            return value
        without = _PASSWORD.sub(rf"\g<1>{HIDDEN}", value)
        return _USER.sub(rf"//\g<1>:{HIDDEN}@", without)


class TokenFile(Place):
    def read(self, value: object) -> str:
        if not isinstance(value, str) or not value:
            raise InvalidValue('a file that only you may read, as "~/.config/duly/token"')
        return os.path.expanduser(value)  # noqa: PTH111 - text in, text out


class App(Place):
    def read(self, value: object) -> str:
        if not isinstance(value, str) or not value.partition(":")[0]:
            raise InvalidValue(
                'a file or a module, as "tasks.py", "shop.tasks" or "shop.tasks:duly"'
            )
        if value.endswith(".toml"):
            raise InvalidValue("an app is Python; a file of schedules is schedules_file")
        return value

    def seen_from(self, value: str, folder: Path) -> str:
        place = value.partition(":")[0]
        return str(folder / value) if place.endswith(".py") or os.sep in place else value


class SchedulesFile(Place):
    def read(self, value: object) -> str:
        if not isinstance(value, str) or not value.endswith(".toml"):
            raise InvalidValue('a file, as "schedules.toml"')
        return value

"""The bearer token of a remote store: read from its file for every call, never shown."""

import os
import stat
from dataclasses import dataclass, field
from typing import Final

from duly.errors import InvalidValue

LONGEST: Final = 4096
OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO
MAKE_ONE: Final = "duly tokens create NAME --role viewer, where the database is"


@dataclass(frozen=True, slots=True)
class RemoteToken:
    file: str
    secret: str = field(repr=False)


def read_token(file: str | None, *, place: str) -> RemoteToken:
    """Return the first line of a file that only its owner may read."""
    if not file:
        raise InvalidValue(
            f"{place} asks for a token: say --token-file FILE, DULY_TOKEN_FILE=FILE, or "
            f'token_file = "FILE" in duly.toml; an admin makes one: {MAKE_ONE}'
        )
    try:
        return RemoteToken(file, _checked(file, _first_line(file)))
    except OSError as error:
        raise InvalidValue(f"the token file {file}: {error.strerror}") from None


def _first_line(file: str) -> bytes:
    with open(file, "rb") as opened:  # noqa: PTH123 - what is looked at is what is read
        if stat.S_IMODE(os.fstat(opened.fileno()).st_mode) & OTHERS:
            raise InvalidValue(f"others may read the token file {file}: chmod 600 {file}")
        return opened.readline(LONGEST)


def _checked(file: str, line: bytes) -> str:
    secret = line.strip()
    if not secret:
        raise InvalidValue(f"the token file {file} is empty: its first line is the token's secret")
    if not secret.isascii() or not secret.decode().isprintable() or b" " in secret:
        raise InvalidValue(f"the first line of {file} is no token, which is one word")
    return secret.decode()

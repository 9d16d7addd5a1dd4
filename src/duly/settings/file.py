"""The file that settings are written in: ``duly.toml``, or ``[tool.duly]`` in ``pyproject.toml``.

It is looked for in a folder and then in those above it, and the nearest one is the only one that
counts.
"""

import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from duly.errors import InvalidValue

OWN: Final = "duly.toml"
PROJECT: Final = "pyproject.toml"


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingsFile:
    path: Path
    values: Mapping[str, object]


def nearest(folder: Path) -> SettingsFile | None:
    begin = folder.absolute()
    for here in (begin, *begin.parents):
        if here != begin and _is_shared(here):
            continue
        found = _in(here)
        if found is not None:
            return found
    return None


def _is_shared(folder: Path) -> bool:
    """Whether it is for everybody, as /tmp is: a stranger's file there must not name our code."""
    try:
        mode = folder.stat().st_mode
    except OSError:
        return False
    return bool(mode & stat.S_IWOTH and mode & stat.S_ISVTX)


def _in(folder: Path) -> SettingsFile | None:
    own, project = folder / OWN, folder / PROJECT
    table = _table_of(project)
    if not _is_file(own):
        return None if table is None else SettingsFile(path=project, values=table)
    if table is not None:
        raise InvalidValue(
            f"{folder} has both {OWN} and [tool.duly] in {PROJECT}: keep {OWN}, with what the "
            f"table says moved into it, and remove [tool.duly]"
        )
    return SettingsFile(path=own, values=_toml(own, _text(own)))


def _table_of(project: Path) -> Mapping[str, object] | None:
    """What ``[tool.duly]`` says; a project that has no such table says nothing."""
    if not _is_file(project):
        return None
    text = _text(project)
    if "duly" not in text or "tool" not in text:
        return None
    tool = _toml(project, text).get("tool")
    table = tool.get("duly") if isinstance(tool, dict) else None
    if table is not None and not isinstance(table, dict):
        raise InvalidValue(f"{project}: duly in [tool] is not a table: write [tool.duly]")
    return table


def _is_file(path: Path) -> bool:
    try:
        return stat.S_ISREG(path.stat().st_mode)
    except OSError:
        return False


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except OSError as error:
        raise InvalidValue(f"{path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise InvalidValue(f"{path} is not UTF-8: save it as that") from None


def _toml(path: Path, text: str) -> dict[str, Any]:
    import tomllib  # noqa: PLC0415 - most commands find no file, and need not wait for it

    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InvalidValue(f"{path} is not TOML: {error}") from None

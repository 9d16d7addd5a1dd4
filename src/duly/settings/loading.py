"""From everything that was said to the settings that count.

What was typed wins over the environment, the environment over the file, the file over the defaults;
each setting for itself.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from duly.errors import InvalidValue
from duly.settings.environment import said_in
from duly.settings.file import SettingsFile, nearest
from duly.settings.places import App, Place
from duly.settings.settings import Key, Settings, key_named, keys
from duly.settings.suggestion import refusal

MOST_SHOWN = 60
# Tables of the file that declares schedules.
_DECLARED = ("schedules", "limits", "calendars", "defaults")


def load(flags: Mapping[str, object], environ: Mapping[str, str], folder: Path) -> Settings:
    """The settings of a command that is called in ``folder``.

    ``flags`` has what was typed, by the names of settings; None is for what was not.
    """
    said = _Said(
        flags={key_named(name).name: value for name, value in flags.items() if value is not None},
        environ=said_in(environ),
        folder=folder.absolute(),
        file=_known(nearest(folder)),
    )
    settled = {name: said.settled(key) for name, key in keys().items()}
    return Settings(
        **{name: value for name, (value, _) in settled.items()},  # type: ignore[arg-type]
        file=said.file.path if said.file else None,
        folder=said.base,
        origins={name: origin for name, (_, origin) in settled.items() if origin},
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Said:
    flags: Mapping[str, object]
    environ: Mapping[str, str]
    folder: Path
    file: SettingsFile | None

    @property
    def base(self) -> Path:
        """Where relative places begin, if they were not typed."""
        return self.file.path.parent if self.file else self.folder

    def settled(self, key: Key) -> tuple[object, str]:
        """The value that counts, and where it comes from; nowhere if it is the default."""
        if key.name in self.flags:
            value = self.flags[key.name]
            return self._typed(key, value, f"{key.flag} "), key.flag
        for variable in key.variables:
            if variable in self.environ:
                value = self.environ[variable]
                return self._typed(key, value, f"{variable}="), variable
        if self.file is not None and key.name in self.file.values:
            return self._written(key, self.file), self.file.path.name
        return _seen_from(self.base, key, key.default), ""

    def _typed(self, key: Key, value: object, place: str) -> object:
        asked = key.kind.parse(value) if isinstance(value, str) else value
        found = _read(key, asked, place=place, shown=str(value))
        # An app is called what it was called, as long as that leads there.
        return found if isinstance(key.kind, App) else _seen_from(self.folder, key, found)

    def _written(self, key: Key, file: SettingsFile) -> object:
        value = file.values[key.name]
        place = f"{file.path}: {key.name} = "
        return _seen_from(self.base, key, _read(key, value, place=place, shown=_as_toml(value)))


def _known(file: SettingsFile | None) -> SettingsFile | None:
    """The file, if it says nothing that there is not."""
    unknown = [name for name in file.values if name not in keys()] if file else []
    if file is None or not unknown:
        return file
    for name in unknown:
        if name in _DECLARED:
            raise InvalidValue(
                f"{file.path}: [{name}] belongs into a file of its own, which this one names: "
                'schedules_file = "schedules.toml"'
            )
    raise InvalidValue(refusal(unknown, keys(), place=str(file.path)))


def _read(key: Key, value: object, *, place: str, shown: str) -> object:
    try:
        found: object = key.kind.read(value)
    except InvalidValue as error:
        # What is wrong with a secret is said without it.
        said = place.rstrip(" =") if key.kind.secret else place + _short(shown)
        raise InvalidValue(f"{said}: {error}") from None
    return found


def _seen_from(folder: Path, key: Key, value: object) -> object:
    if isinstance(key.kind, Place) and isinstance(value, str):
        return key.kind.seen_from(value, folder)
    return value


def _as_toml(value: object) -> str:
    import json  # noqa: PLC0415 - for a message

    return json.dumps(value, default=str, ensure_ascii=False)


def _short(text: str) -> str:
    return text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}…"

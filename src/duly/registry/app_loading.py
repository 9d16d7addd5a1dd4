"""Loading an app from a target: ``tasks.py``, ``shop.tasks`` or ``shop.tasks:duly``.

A file is imported under its module name, not as ``__main__``, so that function names and imports
are the same in the command, in a worker and in a worker's child process.
"""

import importlib
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType

from duly.errors import InvalidValue, NotFound
from duly.registry.registry import Registry

_MOST_NAMED = 5


def load(target: str) -> Registry:
    """Import the target, which declares its tasks, and return its registry."""
    app = find(target)
    found = _registry_of(app)
    if found is None:
        raise NotFound(f'"{target}" is not a Duly app: it has no task registry')
    import_all(getattr(app, "imports", ()))
    return found


def find(target: str) -> object:
    """Import the target and return its app or registry."""
    place, attribute = _parted(target)
    module = _imported(place)
    if attribute:
        return _named(module, attribute, target)
    return _only_app(module, place)


def import_all(names: Iterable[str]) -> None:
    """Import the modules in which an app's tasks are declared."""
    for name in names:
        importlib.import_module(name)


def _parted(target: str) -> tuple[str, str]:
    place, _, attribute = target.partition(":")
    if not place:
        raise InvalidValue(
            f'"{target}": name a file or a module: tasks.py, shop.tasks, or shop.tasks:duly'
        )
    return place, attribute


def _imported(place: str) -> ModuleType:
    if place.endswith(".py") or os.sep in place:
        return _file(Path(place))
    if not all(part.isidentifier() for part in place.split(".")):
        raise InvalidValue(
            f'"{place}" is neither a file such as tasks.py nor a module such as shop.tasks'
        )
    _look_first_in(Path.cwd())
    return _module(place, place)


def _file(path: Path) -> ModuleType:
    path = path.resolve()
    if not path.is_file():
        raise NotFound(f"there is no file {path}; {_files_there(path.parent)}")
    name, folder = path.stem, path.parent
    while (folder / "__init__.py").is_file():
        name, folder = f"{folder.name}.{name}", folder.parent
    _look_first_in(folder)
    module = _module(name.removesuffix(".__init__"), str(path))
    if module.__file__ is None or Path(module.__file__).resolve() != path:
        raise InvalidValue(
            f"{path} would be imported as `{name}`, but that name belongs to "
            f"{module.__file__ or 'built in'}: rename the file"
        )
    return module


def _files_there(folder: Path) -> str:
    if not folder.is_dir():
        return f"there is no folder {folder}, either"
    files = sorted(path.name for path in folder.glob("*.py"))
    if not files:
        return "that folder has no Python files: change to the folder of your app, or name its file"
    more = ", …" if len(files) > _MOST_NAMED else ""
    return f"that folder has {', '.join(files[:_MOST_NAMED])}{more}: name one of them"


def _module(name: str, place: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        # If the module itself imports a missing module, the error is raised as it is.
        if error.name and f"{name}.".startswith(f"{error.name}."):
            raise NotFound(
                f'there is no module "{error.name}" for "{place}", neither in {Path.cwd()} nor '
                "installed"
            ) from None
        raise


def _look_first_in(folder: Path) -> None:
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))


def _named(module: ModuleType, attribute: str, target: str) -> object:
    if not hasattr(module, attribute):
        apps = ", ".join(_apps(module)) or "none"
        raise NotFound(
            f'"{target}": {module.__name__} has no "{attribute}"; '
            f"it defines these apps of duly: {apps}"
        )
    found: object = getattr(module, attribute)
    return found


def _only_app(module: ModuleType, place: str) -> object:
    apps = _apps(module)
    if not apps:
        raise NotFound(f'there is no app in "{place}": create one there with duly = Duly()')
    if len({id(_registry_of(app)) for app in apps.values()}) > 1:
        ways = " or ".join(f"{place}:{name}" for name in apps)
        raise InvalidValue(f'there are {len(apps)} apps in "{place}": choose one with {ways}')
    return next(iter(apps.values()))


def _apps(module: ModuleType) -> dict[str, object]:
    return {name: value for name, value in vars(module).items() if _registry_of(value) is not None}


def _registry_of(value: object) -> Registry | None:
    if isinstance(value, Registry):
        return value
    if isinstance(value, type | ModuleType):
        return None
    try:
        found = getattr(value, "registry", None)
    except Exception:  # noqa: BLE001 - an object of the user's that is not an app
        return None
    return found if isinstance(found, Registry) else None

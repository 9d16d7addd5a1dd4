"""Tools for testing programs that use duly, and duly itself.

Importing this must be cheap, because pytest does it in every project that has duly installed: each
name is imported on first use.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from duly.testing.context import context
    from duly.testing.sandbox import Sandbox

__all__ = ["Sandbox", "context"]


def _behind(name: str) -> Any:  # noqa: ANN401 - whatever it is
    if name in __all__:
        module = import_module(f"duly.testing.{name.lower()}")
        found = globals()[name] = getattr(module, name)
        return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


if not TYPE_CHECKING:  # a type checker would believe that every name exists
    __getattr__ = _behind

"""For tests of programs that use duly, and for the tests of duly itself.

Importing this is cheap, for pytest does it in every project that has duly installed: what is behind
a name is imported when the name is first used.
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


if not TYPE_CHECKING:  # who reads this for types would believe that there is every name
    __getattr__ = _behind

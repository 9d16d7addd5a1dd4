"""For tests of programs that use duly, and for the tests of duly itself."""

from duly.testing.context import context

__all__ = ["context"]

"""The user's own app, on a store in memory and a clock that moves only when told."""

from duly.testing.sandbox.box import Sandbox

__all__ = ["Sandbox"]

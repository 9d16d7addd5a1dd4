"""For code without an event loop: a loop in a thread, where it can have things done."""

from duly.sync.portal import Portal

__all__ = ["Portal"]

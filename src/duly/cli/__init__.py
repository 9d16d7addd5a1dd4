"""The command ``duly``: data on stdout, messages on stderr, and documented exit codes."""

from duly.cli.main import main

__all__ = ["main"]

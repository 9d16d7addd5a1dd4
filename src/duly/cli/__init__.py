"""The command ``duly``: data on stdout, talk on stderr, and an exit code that means something."""

from duly.cli.main import main

__all__ = ["main"]

"""The settings: one frozen value, and the origin of each setting in it."""

from duly.settings.loading import load
from duly.settings.settings import Settings

__all__ = ["Settings", "load"]

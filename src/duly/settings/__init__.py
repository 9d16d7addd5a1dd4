"""What is configured: one struct, and where each value in it was said."""

from duly.settings.loading import load
from duly.settings.settings import Settings

__all__ = ["Settings", "load"]

"""A task: a callable that is known by name, with the choices its author made for every run."""

from dataclasses import dataclass
from datetime import timedelta

from duly.model.payload import Json


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    name: str
    aliases: tuple[str, ...] = ()
    title: str = ""
    queue: str = "default"
    priority: int = 0
    retry: Json | None = None
    timeout: timedelta | None = None
    version: int = 1

"""A queue: a named line of jobs, with a pause switch."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    name: str
    paused: bool = False
    note: str = ""

"""A queue: a named line of jobs, with a pause switch."""

from dataclasses import dataclass

from duly.model.payload import check_text


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    name: str
    paused: bool = False
    note: str = ""

    def __post_init__(self) -> None:
        check_text(self.name, "name")
        check_text(self.note, "note")

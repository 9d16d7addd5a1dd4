"""What comes in from files and pipes, up to a size: a device has no end, and memory has."""

from pathlib import Path
from typing import BinaryIO

from duly.errors import InvalidValue, NotFound

MOST_BYTES = 10_000_000


class Intake:
    """Reads one file after the other, as much as may come in of all of them together."""

    def __init__(self, most: int = MOST_BYTES) -> None:
        self._most = most
        self._left = most

    def file(self, path: Path) -> bytes:
        try:
            with path.open("rb") as file:
                return self.stream(file, str(path))
        except FileNotFoundError:
            raise NotFound(f"there is no file {path}") from None
        except OSError as error:
            raise InvalidValue(f"{path} cannot be read: {error.strerror}") from None

    def stream(self, stream: BinaryIO, place: str) -> bytes:
        data = stream.read(self._left + 1)
        if len(data) > self._left:
            raise InvalidValue(
                f"{place}: there is more than {self._most // 1_000_000} MB to read; leave out what "
                "is no schedule, or take it in parts"
            )
        self._left -= len(data)
        return data

"""Files that declare schedules, as commands read them."""

from pathlib import Path
from typing import TYPE_CHECKING

from duly.errors import InvalidValue, NotFound

if TYPE_CHECKING:
    from duly.declare import Sheet


def read_sheet(file: str) -> "Sheet":
    from duly.declare.reading import read

    try:
        text = Path(file).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise NotFound(
            f"there is no file {file}: name one, or make one with duly import or duly export"
        ) from None
    except UnicodeDecodeError as error:
        raise InvalidValue(f"{file} is not UTF-8: {error.reason} at byte {error.start}") from None
    except OSError as error:
        raise InvalidValue(f"{file} cannot be read: {error.strerror}") from None
    return read(text, place=file)

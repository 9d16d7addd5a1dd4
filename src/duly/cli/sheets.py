"""Files that declare schedules, as commands read them."""

from pathlib import Path
from typing import TYPE_CHECKING

from duly.cli.inputs import Intake
from duly.cli.store import settled
from duly.errors import InvalidValue, NotFound

if TYPE_CHECKING:
    from duly.declare import Sheet


def read_sheet(file: str) -> "Sheet":
    """What it says; rules that name no zone, in a file that names none, have that of the settings.

    It becomes part of each entry, so it is applied, remembered and compared with it.
    """
    from duly.declare.reading import read

    try:
        text = Intake().file(Path(file)).decode("utf-8")
    except NotFound as error:
        raise NotFound(f"{error}: name one, or make one with duly import or duly export") from None
    except UnicodeDecodeError as error:
        raise InvalidValue(f"{file} is not UTF-8: {error.reason} at byte {error.start}") from None
    return read(text, place=file, zone=settled().zone)

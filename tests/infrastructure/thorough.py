"""How far tests go where more is always better: as far as minutes allow, or all the way.

``make test`` takes a share of what dice and calendars have to offer, the same one each time;
``make soak`` takes all of it.
"""

import os
from typing import Final

THOROUGH: Final = bool(os.environ.get("THOROUGH"))
SHARE: Final = 5  # of so many, one


def some(many: int) -> int:
    """So many of them all the way; and so many otherwise."""
    return many if THOROUGH else -(-many // SHARE)

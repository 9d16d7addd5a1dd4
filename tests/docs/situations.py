"""Where the numbered examples are, one for each situation, and how tests hold them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

EXAMPLES = Path(__file__).parents[2] / "examples"

Situation: TypeAlias = Any  # a module, and what is in it
Open: TypeAlias = Callable[[str], Situation]

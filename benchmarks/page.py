"""Write figures into docs/performance.md, between two comments; the rest of the page stays."""

import os
import platform
from datetime import UTC
from pathlib import Path

from duly.clock import now

DOCS = Path(__file__).parents[1] / "docs"
PAGE = DOCS / "performance.md"


def replace_part(name: str, part: str) -> None:
    """Replace the text between the comments ``name`` and ``end of name`` of the page."""
    begin, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->\n"
    before, rest = PAGE.read_text().split(begin)
    _, after = rest.split(end)
    PAGE.write_text(f"{before}{begin}{part}{end}{after}")
    print(f"\nwrote the part {name} of {PAGE.name}")


def rows_on_page(name: str) -> list[list[str]]:
    """Return the rows of the table between the comments, without its head."""
    _, rest = PAGE.read_text().split(f"<!-- {name} -->\n")
    part, _ = rest.split(f"<!-- end of {name} -->\n")
    lines = [line for line in part.splitlines() if line.startswith("| ")]
    return [line.removeprefix("| ").removesuffix(" |").split(" | ") for line in lines[2:]]


def measured() -> str:
    """Return the day, the machine and its load, for the line above a table."""
    day = now().astimezone(UTC).date().isoformat()
    cores, load = os.cpu_count(), os.getloadavg()[2]
    python = platform.python_version()
    return f"Measured on {day}: {cores} cores (load {load:.1f} of 15 minutes), Python {python}"


def rows_of(cells: list[list[str]], *, left: int) -> str:
    """Return a Markdown table; the first row is its head, the first columns are aligned left."""
    head, *body = cells
    rule = ["---"] * left + ["---:"] * (len(head) - left)
    return "".join(f"| {' | '.join(row)} |\n" for row in [head, rule, *body])

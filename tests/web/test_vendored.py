"""What others wrote is as they wrote it."""

import re
from hashlib import sha256
from pathlib import Path

from duly import web

STATIC = Path(web.__file__).parent / "static"


def test_every_file_of_others_has_its_hash() -> None:
    rows = re.findall(
        r"^\| (\S+) \|.*\| ([0-9a-f]{64}) \|$", (STATIC / "VENDORED.md").read_text(), re.MULTILINE
    )
    said = dict(rows)
    assert said.keys() == {path.name for path in STATIC.glob("*.min.js")}
    for name, digest in said.items():
        assert sha256((STATIC / name).read_bytes()).hexdigest() == digest, name

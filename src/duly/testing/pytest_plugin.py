"""For pytest: ``duly_sandbox(app, now="2027-01-03T23:00+01:00")``, over when the test is.

Installed with duly and so imported in every project that has it, also by tests that never use it:
nothing heavy is imported before the fixture is asked for.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Protocol

import pytest

if TYPE_CHECKING:
    from datetime import datetime

    from duly.app.duly import Duly
    from duly.testing.sandbox import Sandbox


class OpenSandbox(Protocol):
    def __call__(self, app: "Duly", *, now: "datetime | str | None" = None) -> "Sandbox": ...


@pytest.fixture
def duly_sandbox() -> Iterator[OpenSandbox]:
    """Opens a sandbox for the rest of the test, and gives it back."""
    from duly.testing.sandbox import Sandbox  # noqa: PLC0415 - only for those who use it

    with ExitStack() as stack:

        def open_sandbox(app: "Duly", *, now: "datetime | str | None" = None) -> Sandbox:
            return stack.enter_context(Sandbox(app, now=now))

        yield open_sandbox

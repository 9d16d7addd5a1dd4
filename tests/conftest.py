"""What every test may ask for. Each machine the tests run on has a file of its own."""

from hypothesis import settings

pytest_plugins = [
    "pytester",
    "tests.infrastructure.chromium",
    "tests.infrastructure.leaks",
    "tests.infrastructure.memory",
    "tests.infrastructure.postgres",
]

# A slow machine is not a bug in the rule under test; a hang is caught by the timeout.
settings.register_profile("duly", deadline=None)
settings.load_profile("duly")

"""The address of a store, as code gives it: what would give a password away is refused."""

import pytest

from duly import Duly
from duly.errors import InvalidValue


@pytest.mark.parametrize(
    "address", ["postgresql://bob:hunter2/x@h/d", "host=h password=hunter2 dbname=x"]
)
def test_a_password_is_not_taken_for_a_host_or_a_file(address: str) -> None:
    with pytest.raises(InvalidValue, match="a PostgreSQL database is postgresql://") as refused:
        Duly(address).jobs.list()
    assert "hunter2" not in str(refused.value)

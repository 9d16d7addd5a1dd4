"""What a job was told under the name of a secret, it does not tell."""

from duly import Duly, current
from duly.testing import Sandbox

duly = Duly()


@duly.task(retry=None, title="customer {customer} with {api_key}")
def charge(customer: int, api_key: str) -> None:
    current().log.warning("customer %s with %s", customer, api_key)
    raise ValueError(f"customer {customer} was refused with key {api_key}")


def test_neither_its_title_nor_its_error_nor_its_reason_nor_its_log_tells_it() -> None:
    with Sandbox(duly, now="2027-01-03T23:00+01:00") as box:
        charge.enqueue(7, "sk_live_42")
        [job] = box.run()
        told = "\n".join(job.logs())
    assert job.title == "customer 7 with ***"
    assert "customer 7 was refused with key ***" in (job.error or "")
    assert "customer 7 with ***" in told
    assert "sk_live_42" not in f"{job.error}{job.reason}{told}"

"""What is asked again under an Idempotency-Key is not done again."""

from tests.web.api.conftest import Api

BODY = {"task": "send", "args": {"to": "ada"}}


def key(text: str = "k-1") -> dict[str, dict[str, str]]:
    return {"headers": {"Idempotency-Key": text}}


def test_the_same_key_with_the_same_body_is_the_same_job(api: Api) -> None:
    first = api.post("/jobs", BODY, **key())
    assert api.post("/jobs", {"args": {"to": "ada"}, "task": "send"}, **key()) == first
    assert api.post("/jobs", BODY, **key("k-2")) != first
    assert api.post("/jobs", BODY) != first
    assert api.get("/jobs/count")["count"] == 3


def test_the_same_key_with_another_body_is_refused(api: Api) -> None:
    api.post("/jobs", BODY, **key())
    status, said = api.refused("POST", "/jobs", {"task": "send", "args": {"to": "bob"}}, **key())
    assert (status, "was used for another request" in said) == (409, True)
    assert api.refused("POST", "/jobs/batch", {"jobs": [BODY]}, **key())[0] == 409
    assert api.get("/jobs/count")["count"] == 1


def test_a_batch_under_a_key_is_made_once(api: Api) -> None:
    first = api.post("/jobs/batch", {"jobs": [BODY, BODY]}, **key())
    assert api.post("/jobs/batch", {"jobs": [BODY, BODY]}, **key()) == first
    assert api.get("/jobs/count")["count"] == 2


def test_every_token_has_keys_of_its_own(api: Api) -> None:
    first = api.post("/jobs", BODY, **key())
    assert api.post("/jobs", BODY, role="operator", **key()) != first


def test_a_refused_body_uses_no_key_up(api: Api) -> None:
    assert api.refused("POST", "/jobs", {"task": "send"}, **key())[0] == 422
    api.post("/jobs", BODY, **key())

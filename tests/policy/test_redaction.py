"""Values that are named like secrets do not reach those who read logs."""

import time

import pytest

from duly.policy.redaction import redacted

HIDDEN = {
    "password=hunter2 x": "password=*** x",
    "PASSWORD = hunter2": "PASSWORD = ***",
    "DB_PASSWORD=ab,cd ef": "DB_PASSWORD=*** ef",
    "passwd: a\\b c": "passwd: *** c",
    "token: abc, user=bob": "token: ***, user=bob",
    "?token=abc&x=1": "?token=***&x=1",
    "x-api-key: 123": "x-api-key: ***",
    "apikey=1;b=2": "apikey=***;b=2",
    "client_secret='a b' id=3": "client_secret='***' id=3",
    '{"api_key": "a\\"b c", "n": 1}': '{"api_key": "***", "n": 1}',
    "{'secret': 'abc', 'x': 1}": "{'secret': '***', 'x': 1}",
    '"secrets": ["a", "b"], c': '"secrets": ***], c',
    '\\"password\\": \\"x y\\", \\"b\\": 1': '\\"password\\": \\"***\\", \\"b\\": 1',
    'password: "never closed': 'password: "***',
    "Config(password=a(b)c)": "Config(password=***)",
    "run --token abc --db-password=def": "run --token *** --db-password=***",
    "Authorization: Basic abc==": "Authorization: ***",
    "authorization: Bearer abc.def": "authorization: ***",
    '"authorization": "Bearer abc d"': '"authorization": "***"',
    "curl -H 'Bearer abc'": "curl -H 'Bearer ***'",
    "postgresql://user:p@ss@host/name": "postgresql://user:***@host/name",
    "redis://:pw@host:6379/0": "redis://:***@host:6379/0",
}


@pytest.mark.parametrize("text", HIDDEN)
def test_the_value_behind_a_name_like_a_secrets_is_hidden(text: str) -> None:
    assert redacted(text) == HIDDEN[text]
    assert redacted(redacted(text)) == HIDDEN[text]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "nothing to see",
        "the password is wrong",
        "token=",
        "token:\nthe next line",
        "max_tokens=512, tokens: 7",
        "http://host:80/path@place",
        "mail to a@b.example: sent",
        "--no-token -x",
    ],
)
def test_a_text_without_secrets_stays_as_it_is(text: str) -> None:
    assert redacted(text) == text


@pytest.mark.parametrize(
    "piece",
    ["a", "-", " --", '"', "\\", "@", ")", ",", "token", "token=", "token ", "token=,", "token=[",
     "token=a)", "token=\\", 'token="\\"', "token\\", "--token ", " --aaaaaaaaaaaaaaaaaaaa",
     "bearer ", "://", "://a:", "://a:b", "://a:@", "password: x "],
)  # fmt: skip
def test_a_line_of_a_megabyte_costs_no_more_than_its_length(piece: str) -> None:
    line = f"token ://a:{piece * (1_000_000 // len(piece))}"
    began = time.process_time()
    redacted(line)
    assert time.process_time() - began < 5  # about half a second; what doubles back takes hours

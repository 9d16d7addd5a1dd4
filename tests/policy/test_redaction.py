"""Values that are named like secrets do not reach those who read logs."""

import time

import pytest

from duly.policy.redaction import (
    hidden,
    hidden_call,
    hidden_json,
    hidden_url,
    redacted,
    redacted_for,
)

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
    'password: "cut off behind a \\': 'password: "***',
    "token=bearer, x": "token=***, x",
    "token=a,b], x": "token=***], x",
    "Config(password=a(b)c)": "Config(password=***)",
    "run --token abc --db-password=def": "run --token *** --db-password=***",
    "Authorization: Basic abc==": "Authorization: ***",
    "authorization: Bearer abc.def": "authorization: ***",
    '"authorization": "Bearer abc d"': '"authorization": "***"',
    "curl -H 'Bearer abc'": "curl -H 'Bearer ***'",
    "postgresql://user:p@ss@host/name": "postgresql://user:***@host/name",
    "redis://:pw@host:6379/0": "redis://:***@host:6379/0",
    "curl -H 'Cookie: a=1; b=2' x": "curl -H 'Cookie: ***' x",
    '{"Set-Cookie": "a=1; Path=/", "n": 1}': '{"Set-Cookie": "***", "n": 1}',
    "cookies=abc x": "cookies=*** x",
    "X-Auth: abc": "X-Auth: ***",
    "X-Auth-Key: abc": "X-Auth-Key: ***",
    "AWS_SESSION=abc AWS_SESSION_TOKEN=def": "AWS_SESSION=*** AWS_SESSION_TOKEN=***",
    "sessionid=abc; x": "sessionid=***; x",
    "pass=hunter2 x": "pass=*** x",
    "DB_PASS: hunter2": "DB_PASS: ***",
    '{"userPass": "hunter2"}': '{"userPass": "***"}',
    "smtp-pass=hunter2": "smtp-pass=***",
    "passcode=1 passkey=2": "passcode=*** passkey=***",
    "PIN: 1234": "PIN: ***",
    "card_pin=1234, x": "card_pin=***, x",
    '"cardPin": 1234}': '"cardPin": ***}',
    "pin_code=1234": "pin_code=***",
    "otp=123456&x": "otp=***&x",
    "OTP_CODE=123456": "OTP_CODE=***",
    "jwt: ey.ab.cd": "jwt: ***",
    "id-jwt=ey.ab.cd": "id-jwt=***",
    "auth=abc": "auth=***",
    "basic_auth: 'ada:x'": "basic_auth: '***'",
    "X-Auth-Header: abc": "X-Auth-Header: ***",
    "oauth=abc httpAuth=abc": "oauth=*** httpAuth=***",
    "SENTRY_DSN=https://abc@o1.example/2": "SENTRY_DSN=***",
    "dsn: 'host=db password=x'": "dsn: '***'",
    "signing_key=abc": "signing_key=***",
    "ssh-key: abc": "ssh-key: ***",
    "STRIPE_KEY_LIVE=abc": "STRIPE_KEY_LIVE=***",
    '"encryptionKey": "abc"': '"encryptionKey": "***"',
    "signing_keys=['a', 'b'], c": "signing_keys=***], c",
    'tokens=abc, "tokens": ["a", "b"]': 'tokens=***, "tokens": ***]',
    "refresh_tokens: abc": "refresh_tokens: ***",
    "tokens: 7f3a": "tokens: ***",
    "run --pass abc --pin 1234 --ssh-key ~/.ssh/id": "run --pass *** --pin *** --ssh-key ***",
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
        "author: Ada, authority=x, authored: 1",
        "compass=n bypass: yes passed: 12 passengers=3 tests passed=7",
        "ping=3 shipping: yes spin=2 pinned: no pins=4 opinion: x",
        "key=order:7 --key 7 keyboard: de monkey=1 keys: 3",
        "the key: 7",
        "idempotency_key=order-7 Idempotency-Key: 7 public_key=abc primary_key: 7 foreign_keys=on",
        "max_tokens=512 total_tokens: 7.5, {'prompt_tokens': 7}",
        "authenticated: yes jwtish=1 adsn=3",
    ],
)
def test_a_text_without_secrets_stays_as_it_is(text: str) -> None:
    assert redacted(text) == text


PIECES = [
    "a", "-", " --", '"', "\\", "@", ")", ",", "token", "token=", "token ", "token=,", "token=[",
    "token=a)", "token=\\", 'token="\\"', "token\\", "--token ", " --aaaaaaaaaaaaaaaaaaaa",
    "cookie", "cookie: ", "cookie:'", "x-auth", "pass", "pass=", "aPin", "_key", "_key_",
    "a_key=", "tokens=", "tokens=1", "tokens:", "auth-", "Key", "bearer ", "://", "://a:",
    "://a:b", "://a:@", "password: x ",
]  # fmt: skip
many = pytest.mark.thorough("a megabyte of another piece")


@pytest.mark.parametrize(
    "piece",
    [pytest.param(one, marks=[many] if place % 4 else []) for place, one in enumerate(PIECES)],
)
def test_a_line_of_a_megabyte_costs_no_more_than_its_length(piece: str) -> None:
    line = f"token ://a:{piece * (1_000_000 // len(piece))}"
    began = time.process_time()
    redacted(line)
    assert time.process_time() - began < 5  # about half a second; what doubles back takes hours


def test_what_is_named_like_a_secret_is_hidden_wherever_it_is_in_a_value() -> None:
    found = {"n": 1, "api_key": ["a"], "deep": [{"Cookie": "b", "text": "token=c d"}], "no": None}
    assert hidden(found) == {
        "n": 1,
        "api_key": "***",
        "deep": [{"Cookie": "***", "text": "token=*** d"}],
        "no": None,
    }


def test_a_number_of_tokens_is_no_secret_and_a_pin_is_one() -> None:
    found = {"max_tokens": 512, "pin": 1234, "tokens": ["a"], "usage": {"tokens": 7, "otp": 1}}
    assert hidden(found) == {
        "max_tokens": 512,
        "pin": "***",
        "tokens": "***",
        "usage": {"tokens": 7, "otp": "***"},
    }


def test_in_the_words_of_a_command_a_secret_is_what_stands_behind_its_option() -> None:
    words = ["curl", "--token", "abc", "-v", "--password", "--fast", "x", "--api-key=abc"]
    assert hidden(words) == [
        "curl", "--token", "***", "-v", "--password", "--fast", "x", "--api-key=***"
    ]  # fmt: skip


def test_of_a_request_only_what_everybody_is_told_is_shown() -> None:
    said = {
        "url": "https://example.com/hook?key=abc#d",
        "method": "POST",
        "headers": {"X-Whatever": "abc", "Content-Type": "text/plain", "USER-AGENT": "duly"},
        "body": "abc",
        "sign": "HOOK_KEY",
        "expect": [200],
    }
    assert hidden_call("duly.http", said) == {
        "url": "https://example.com/hook?***",
        "method": "POST",
        "headers": {"X-Whatever": "***", "Content-Type": "text/plain", "USER-AGENT": "duly"},
        "body": "***",
        "sign": "HOOK_KEY",
        "expect": [200],
    }
    assert hidden_call("shop.http", {"body": "abc"}) == {"body": "abc"}
    assert hidden_call("duly.http", {"headers": "abc", "url": 7, "body": None}) == {
        "headers": "***",
        "url": "***",
        "body": None,
    }


@pytest.mark.parametrize("task", ["duly.shell", "duly.command"])
def test_of_a_program_the_environment_is_shown_by_its_names_alone(task: str) -> None:
    said = {"line": "backup --token abc", "env": {"LANG": "C"}, "stdin": "abc", "cwd": "/srv"}
    assert hidden_call(task, said) == {
        "line": "backup --token ***",
        "env": {"LANG": "***"},
        "stdin": "***",
        "cwd": "/srv",
    }


def test_arguments_as_they_are_kept_stay_json() -> None:
    kept = '{"env":{"A":"b"},"line":"ä"}'
    assert hidden_json("duly.shell", kept) == '{"env":{"A":"***"},"line":"ä"}'
    assert hidden_json("duly.shell", '{"password": "abc') == '{"password": "***'


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://example.com", "https://example.com"),
        ("https://example.com:444/a/@b", "https://example.com:444/a/@b"),
        ("https://[::1]:81/a?b", "https://[::1]:81/a?***"),
        ("https://example.com?b=c", "https://example.com?***"),
        ("https://example.com/#token", "https://example.com/"),
        ("https://ada@example.com/", "https://***@example.com/"),
        ("https://ada:hunter2@example.com/", "https://***@example.com/"),
        ("https://ada:hun@ter2@example.com/", "https://***"),
        ("https://ada:hunter2/x@example.com/", "https://***"),
        ("https://ada:hunter2?x@example.com/", "https://***"),
        ("https://ada:hunter2#x@example.com/", "https://***"),
        ("no url with a token=abc", "no url with a token=***"),
    ],
)
def test_a_url_is_shown_without_what_may_be_a_key(url: str, shown: str) -> None:
    assert hidden_url(url) == shown


def test_what_a_job_was_told_under_the_name_of_a_secret_is_hidden_where_it_says_it_again() -> None:
    args = '{"api_key": "sk_live_42", "auth": {"tokens": ["abc"], "token": ["deeper-1"]}}'
    said = redacted_for(args, "ada@x was refused with key sk_live_42, and deeper-1; abc")
    assert said == "ada@x was refused with key ***, and ***; abc"
    assert redacted_for('{"password": "a"}', "a b") == "a b"  # a letter is no secret
    assert redacted_for("no json, password", "a b") == "a b"

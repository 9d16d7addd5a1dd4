"""URLs: what is connected to is what was said, and what could be read in two ways is refused."""

import pytest

from duly.builtin.http_exchange import Target
from duly.errors import Permanent


@pytest.mark.parametrize(
    ("url", "host", "port", "rest"),
    [
        ("http://example.com", "example.com", 80, "/"),
        ("HTTPS://Example.COM./a?b=c#d", "example.com", 443, "/a?b=c"),
        ("http://example.com:8080/", "example.com", 8080, "/"),
        (
            "http://bücher.example/ä b".replace(" ", "%20"),
            "xn--bcher-kva.example",
            80,
            "/%C3%A4%20b",
        ),
        ("http://[::1]:81/x", "::1", 81, "/x"),
        ("http://[0:0:0::0001]/", "::1", 80, "/"),
        ("http://127.1/", "127.1", 80, "/"),
        ("http://①②⑦.⓪.⓪.①/", "127.0.0.1", 80, "/"),
        ("http://example.com?q=%3D&r='", "example.com", 80, "/?q=%3D&r='"),
    ],
)
def test_a_url_is_taken_apart(url: str, host: str, port: int, rest: str) -> None:
    found = Target.of(url)
    assert (found.host, found.port, found.path) == (host, port, rest)


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("ftp://example.com/", "the URL begins with https:// or http://"),
        ("file:///etc/passwd", "the URL begins with https:// or http://"),
        ("example.com", "the URL begins with https:// or http://"),
        ("http://", "names no host"),
        ("http:///path", "names no host"),
        ("http://a..b/", "names no host"),
        ("http://[fe80::1%25eth0]/", "names no host"),
        ("http://[::1", "not a URL"),
        ("http://example.com:99999/", "not a URL"),
        ("http://example.com:x/", "not a URL"),
        ("http://user:hunter2@example.com/", "holds a user or a password"),
        ("http://user:hunter2/x@example.com/", "not a URL"),
        ("http://user:hunter2?x@example.com/", "not a URL"),
        ("ftp://user:hunter2@example.com/", "the URL begins with"),
        ("http://user:hunter2@exa mple.com/", "no spaces, backslashes"),
        ("http://user:hunter2@ex℀mple.com/", "not a URL"),
        ("http://example.com\\@127.0.0.1/", "no spaces, backslashes"),
        ("http://example.com/\r\nHost: x", "no spaces, backslashes"),
        ("http://exa\tmple.com/", "no spaces, backslashes"),
        ("http://example.com/ HTTP/1.1", "no spaces, backslashes"),
        (f"http://example.com/{'x' * 8_000}", "at most 8,000 characters"),
    ],
)
def test_what_is_no_url_for_us_is_refused(url: str, message: str) -> None:
    with pytest.raises(Permanent, match=message) as caught:
        Target.of(url)
    assert "hunter2" not in str(caught.value)


def test_people_are_not_shown_the_query() -> None:
    assert Target.of("https://example.com:444/a?token=x").shown == "https://example.com:444/a"


@pytest.mark.parametrize(
    ("location", "leads_to"),
    [
        ("/b?c", "https://example.com:444/b?c"),
        ("b", "https://example.com:444/a/b"),
        ("//other.example/b", "https://other.example/b"),
        ("http://other.example", "http://other.example/"),
    ],
)
def test_a_redirect_may_be_relative(location: str, leads_to: str) -> None:
    assert str(Target.of("https://example.com:444/a/x?y").led_to(location)) == leads_to

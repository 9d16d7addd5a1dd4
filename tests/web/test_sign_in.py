"""People sign in with a token; a proxy, or the application around, may say who they are."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from httpx2 import Response
from starlette.requests import HTTPConnection

from duly import Duly, User
from duly.errors import InvalidValue
from duly.web.authentication import MOST_ATTEMPTS, TrustedProxy
from tests.infrastructure.web import ORIGIN, Site, site, site_at

PAGE = {"accept": "text/html"}


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Site]:
    with site_at(tmp_path / "duly.db") as found:
        yield found


def test_a_page_leads_to_the_sign_in_and_back(here: Site) -> None:
    away = here.client.get("/jobs?filter=x", headers=PAGE, follow_redirects=False)
    assert (away.status_code, away.headers["location"]) == (
        303,
        "/login?next=%2Fjobs%3Ffilter%3Dx",
    )
    here.client.get("/login")
    form = {"token": here.token("ada", "viewer"), "csrf": here.client.cookies["duly_csrf"]}
    back = here.client.post(
        away.headers["location"], data=form, headers={"origin": ORIGIN}, follow_redirects=False
    )
    assert (back.status_code, back.headers["location"]) == (303, "/jobs?filter=x")
    assert here.client.get("/", headers=PAGE, follow_redirects=False).status_code == 200


def test_a_link_elsewhere_is_not_followed_after_the_sign_in(here: Site) -> None:
    here.client.get("/login")
    form = {"token": here.token("ada", "viewer"), "csrf": here.client.cookies["duly_csrf"]}
    for lure in ("//evil.example", "https://evil.example", "/\\evil.example"):
        answer = here.client.post(
            "/login",
            params={"next": lure},
            data=form,
            headers={"origin": ORIGIN},
            follow_redirects=False,
        )
        assert answer.headers["location"] == "/"


def test_the_cookie_cannot_be_read_by_scripts_nor_sent_by_other_sites(here: Site) -> None:
    here.client.get("/login")
    form = {"token": here.token("ada", "viewer"), "csrf": here.client.cookies["duly_csrf"]}
    answer = here.client.post(
        "/login", data=form, headers={"origin": ORIGIN}, follow_redirects=False
    )
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=lax" in cookie
    assert "max-age=43200" in cookie


def test_a_revoked_token_ends_the_session_at_once(here: Site) -> None:
    here.sign_in("ada", "viewer")
    assert here.client.get("/", headers=PAGE).status_code == 200
    here.app.tokens.revoke("ada")
    assert here.client.get("/", headers=PAGE, follow_redirects=False).status_code == 303


def test_who_signs_out_is_nobody(here: Site) -> None:
    ours = here.sign_in("ada", "viewer")
    here.client.post("/logout", headers=ours, follow_redirects=False)
    assert here.client.get("/", headers=PAGE, follow_redirects=False).status_code == 303


def test_signing_in_is_in_the_audit_log(here: Site) -> None:
    here.sign_in("ada", "operator")
    [entry] = here.app.audit.list(who="ada")
    assert (entry.action, entry.subject, entry.how) == ("sign in", "user:ada", "person")


def typed(here: Site, token: str, **headers: str) -> Response:
    """What a token that is typed into the form is answered with."""
    here.client.get("/login")
    form = {"token": token, "csrf": here.client.cookies["duly_csrf"]}
    said = {"origin": ORIGIN, **headers}
    return here.client.post("/login", data=form, headers=said, follow_redirects=False)


def test_after_ten_wrong_tokens_further_ones_are_turned_away_for_a_while(here: Site) -> None:
    for _ in range(MOST_ATTEMPTS):
        assert typed(here, "duly_wrong").status_code == 401
    answer = typed(here, "duly_wrong")
    assert answer.status_code == 429
    assert 0 < int(answer.headers["retry-after"]) <= 300
    assert "Too many wrong tokens" in answer.text


def test_a_valid_token_opens_whoever_else_has_typed_wrong_ones(here: Site) -> None:
    for _ in range(MOST_ATTEMPTS + 1):
        typed(here, "duly_wrong")
    assert typed(here, here.token("ada", "viewer")).status_code == 303
    bearer = here.bearer("ci", "viewer")
    assert here.client.get("/api/v1/status", headers=bearer).status_code == 200


def test_wrong_tokens_of_programs_do_not_lock_the_form(here: Site) -> None:
    for _ in range(MOST_ATTEMPTS + 1):
        headers = {"authorization": "Bearer duly_wrong"}
        assert here.client.get("/api/v1/status", headers=headers).status_code == 401
    assert typed(here, "duly_wrong").status_code == 401


def test_who_types_wrong_tokens_is_told_apart_behind_a_proxy_that_is_believed(
    tmp_path: Path,
) -> None:
    believed, other = (
        TrustedProxy(networks=("127.0.0.0/8",)),
        TrustedProxy(networks=("10.0.0.0/8",)),
    )
    for proxy, expected in ((believed, 401), (other, 429)):
        with site(Duly(str(tmp_path / "duly.db")), proxy=proxy) as here:
            here.client._transport.client = ("127.0.0.1", 1)  # type: ignore[attr-defined]
            for _ in range(MOST_ATTEMPTS):
                typed(here, "duly_wrong", **{"x-forwarded-for": "198.51.100.7"})
            # The first address is what the client itself has said.
            again = typed(here, "duly_wrong", **{"x-forwarded-for": "192.0.2.1, 198.51.100.7"})
            assert again.status_code == 429
            else_ = typed(here, "duly_wrong", **{"x-forwarded-for": "198.51.100.7, 192.0.2.1"})
            assert else_.status_code == expected


def test_the_cookies_are_for_tls_alone_where_the_browser_speaks_it(tmp_path: Path) -> None:
    proxy = TrustedProxy(networks=("127.0.0.0/8",))
    for peer, proto, secure in (
        ("127.0.0.1", "https", True),
        ("127.0.0.1", "http", False),
        ("192.0.2.1", "https", False),
    ):
        with site(Duly(str(tmp_path / "duly.db")), proxy=proxy, launch="duly_printed") as here:
            here.client._transport.client = (peer, 1)  # type: ignore[attr-defined]
            headers = {"x-forwarded-proto": proto, "origin": ORIGIN}
            form = here.client.get("/login", headers=headers)
            csrf = form.headers["set-cookie"].partition("duly_csrf=")[2].partition(";")[0]
            answer = here.client.post(
                "/login",
                data={"token": "duly_printed", "csrf": csrf},
                headers={**headers, "cookie": f"duly_csrf={csrf}"},
                follow_redirects=False,
            )
            for found in (form, answer):
                assert ("secure" in found.headers["set-cookie"].lower()) is secure


def test_the_cookie_is_no_token_and_a_token_is_no_cookie(here: Site) -> None:
    here.sign_in("ada", "operator")
    session = here.client.cookies["duly_session"]
    here.client.cookies.clear()
    headers = {"authorization": f"Bearer {session}"}
    assert here.client.get("/api/v1/status", headers=headers).status_code == 401
    here.client.cookies.set("duly_session", here.token("eve", "operator"))
    assert here.client.get("/api/v1/status").status_code == 401


@pytest.mark.parametrize("launch", [None, "duly_printed"])
def test_signing_out_ends_the_session_in_every_copy_of_the_cookie(
    tmp_path: Path, launch: str | None
) -> None:
    with site(Duly(str(tmp_path / "duly.db")), launch=launch) as here:
        assert typed(here, launch or here.token("ada", "viewer")).status_code == 303
        copy = here.client.cookies["duly_session"]
        ours = {"origin": ORIGIN, "x-csrf-token": here.client.cookies["duly_csrf"]}
        assert here.client.get("/", headers=PAGE, follow_redirects=False).status_code == 200
        here.client.post("/logout", headers=ours, follow_redirects=False)
        here.client.cookies.set("duly_session", copy)
        assert here.client.get("/", headers=PAGE, follow_redirects=False).status_code == 303


def test_a_session_by_the_printed_link_ends_with_that_secret(tmp_path: Path) -> None:
    url = str(tmp_path / "duly.db")
    with site(Duly(url), launch="duly_printed") as here:
        assert typed(here, "duly_printed").status_code == 303
        copy = here.client.cookies["duly_session"]
    for launch, expected in (("duly_printed", 200), ("duly_another", 303), (None, 303)):
        with site(Duly(url), launch=launch) as here:
            here.client.cookies.set("duly_session", copy)
            found = here.client.get("/", headers=PAGE, follow_redirects=False)
            assert found.status_code == expected


def test_another_site_cannot_sign_somebody_in(here: Site) -> None:
    here.client.get("/login")
    form = {"token": here.token("ada", "viewer"), "csrf": here.client.cookies["duly_csrf"]}
    for headers in ({"origin": "https://evil.example"}, {}):
        assert here.client.post("/login", data=form, headers=headers).status_code == 403
    form["csrf"] = "guessed"
    assert here.client.post("/login", data=form, headers={"origin": ORIGIN}).status_code == 403


def test_the_link_that_was_printed_opens_everything_and_no_stored_token_does(
    tmp_path: Path,
) -> None:
    with site(Duly(str(tmp_path / "duly.db")), launch="duly_printed") as here:
        stored = here.token("ada", "admin")
        refused = here.client.get(f"/login?token={stored}", follow_redirects=False)
        assert refused.status_code == 200  # the form again
        assert "duly_session" not in here.client.cookies
        here.client.get("/login?token=duly_printed", follow_redirects=False)
        assert here.client.get("/", headers=PAGE).status_code == 200


def test_a_proxy_is_believed_from_its_own_network_only(tmp_path: Path) -> None:
    near = TrustedProxy(header="x-user", networks=("127.0.0.0/8",), role="operator")
    far = TrustedProxy(header="x-user", networks=("10.0.0.0/8",))
    for proxy, expected in ((near, 200), (far, 303)):
        with site(Duly(str(tmp_path / "duly.db")), proxy=proxy) as here:
            here.client._transport.client = ("127.0.0.1", 1)  # type: ignore[attr-defined]
            headers = {**PAGE, "x-user": "ada"}
            answer = here.client.get("/", headers=headers, follow_redirects=False)
            assert answer.status_code == expected
    with pytest.raises(InvalidValue, match="networks of the proxies"):
        TrustedProxy(header="x-user", networks=())


async def somebody(connection: HTTPConnection) -> User | None:
    name = connection.headers.get("x-test")
    return User(name, "operator") if name else None


def test_the_application_around_says_who_it_is(tmp_path: Path) -> None:
    with site(Duly(str(tmp_path / "duly.db")), host=somebody) as here:
        assert here.client.get("/", headers=PAGE, follow_redirects=False).status_code == 401
        known = {**PAGE, "x-test": "ada"}
        assert here.client.get("/", headers=known).status_code == 200
        csrf = here.client.cookies["duly_csrf"]
        pause = "/api/v1/queues/mail/pause"
        assert here.client.post(pause, headers=known).status_code == 403
        ours = {"x-test": "ada", "origin": ORIGIN, "x-csrf-token": csrf}
        assert here.client.post(pause, headers=ours).status_code == 200
        [entry] = here.app.audit.list(who="ada")
        assert entry.how == "http"


def test_where_the_application_around_says_who_it_is_tokens_of_our_own_open_nothing(
    tmp_path: Path,
) -> None:
    def by_their_bearer(connection: HTTPConnection) -> User | None:
        said = connection.headers.get("authorization", "")
        return User("ada", "operator") if said == "Bearer theirs" else None

    with site(Duly(str(tmp_path / "duly.db")), host=by_their_bearer) as here:
        ours = here.token("ci", "admin")
        for headers in ({"authorization": f"Bearer {ours}"}, {"cookie": f"duly_session={ours}"}):
            assert here.client.get("/api/v1/status", headers=headers).status_code == 401
        theirs = {"authorization": "Bearer theirs"}
        assert here.client.get("/api/v1/status", headers=theirs).status_code == 200
        paused = here.client.post("/api/v1/queues/mail/pause", headers=theirs)
        assert paused.status_code == 200  # no browser sends it by itself
        for found in (here.client.get("/login"), typed_blindly(here, ours)):
            assert found.status_code == 403
            assert "duly_session" not in found.headers.get("set-cookie", "")


def typed_blindly(here: Site, token: str) -> Response:
    headers = {"origin": ORIGIN, "cookie": "duly_csrf=x"}
    return here.client.post("/login", data={"token": token, "csrf": "x"}, headers=headers)


def test_a_mounted_app_says_who_may_come_in(tmp_path: Path) -> None:
    app = Duly(str(tmp_path / "duly.db"))
    with pytest.raises(TypeError):
        app.asgi()  # type: ignore[call-arg]
    with pytest.raises(InvalidValue, match='"token", for access tokens'):
        app.asgi(auth="none")  # type: ignore[arg-type]


def test_who_did_not_sign_in_here_is_not_offered_to_sign_out(tmp_path: Path) -> None:
    with site(Duly(str(tmp_path / "duly.db")), host=somebody) as here:
        assert "Sign out" not in here.client.get("/", headers={**PAGE, "x-test": "ada"}).text
    with site_at(tmp_path / "duly.db") as here:
        here.sign_in("ada", "viewer")
        assert "Sign out" in here.client.get("/", headers=PAGE).text


def test_what_is_asked_in_the_wrong_way_is_a_problem_like_others(here: Site) -> None:
    answer = here.client.request("PATCH", "/api/v1/jobs", headers=here.bearer("ada", "admin"))
    assert (answer.status_code, answer.json()["type"]) == (405, "/problems/method-not-allowed")
    assert "GET" in answer.headers["allow"]

"""Every door, and everybody who may not come in by it."""

import re
from collections.abc import Iterator

import pytest

from duly.model.access import ROLES
from duly.web.application import public_routes, routes
from duly.web.authentication import SAFE
from duly.web.routes import WebRoute
from tests.infrastructure.web import ORIGIN, Site, site_at

ROUTES = [pytest.param(route, id=f"{route.method} {route.path}") for route in routes()]
CHANGING = [one for one in ROUTES if one.values[0].method not in SAFE]  # type: ignore[union-attr]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with site_at(tmp_path_factory.mktemp("doors") / "duly.db") as found:
        yield found


@pytest.fixture(scope="module")
def secrets(site: Site) -> dict[str, str]:
    found: dict[str, str] = {role: site.token(role, role) for role in ROLES}
    site.client.cookies.clear()
    site.sign_in("ada", "admin")
    found["session"] = site.client.cookies["duly_session"]
    return found | {"theirs": site.token("theirs", "admin", tenant="acme")}


def knock(site: Site, route: WebRoute, headers: dict[str, str], **cookies: str) -> int:
    path = re.sub(r"{(\w+)(:\w+)?}", lambda found: "1" if found[1] == "id" else "x", route.path)
    site.client.cookies.clear()
    for name, value in cookies.items():
        site.client.cookies.set(name, value)
    headers = {"accept": "application/json", **headers}
    return site.client.request(
        route.method, path, headers=headers, follow_redirects=False
    ).status_code


def test_only_these_doors_are_open_to_everybody() -> None:
    assert {(route.method, route.path) for route in public_routes()} == {
        ("GET", "/login"),
        ("POST", "/login"),
        ("POST", "/logout"),
        ("GET", "/healthz"),
        ("GET", "/readyz"),
    }


def test_a_program_that_sends_no_token_is_told_the_header(site: Site) -> None:
    site.client.cookies.clear()
    detail = site.client.get("/api/v1/jobs").json()["detail"]
    assert detail.endswith("send an access token (Bearer) in the header Authorization")


@pytest.mark.parametrize("route", ROUTES)
def test_nobody_comes_in_unknown(site: Site, route: WebRoute) -> None:
    assert knock(site, route, {}) == 401
    assert knock(site, route, {"authorization": "Bearer duly_wrong"}) == 401
    assert knock(site, route, {}, duly_session="duly_wrong") == 401


@pytest.mark.parametrize("route", ROUTES)
def test_nobody_comes_in_whose_role_is_below(
    site: Site, secrets: dict[str, str], route: WebRoute
) -> None:
    assert route.role is not None
    for role in ROLES[: ROLES.index(route.role)]:
        assert knock(site, route, {"authorization": f"Bearer {secrets[role]}"}) == 403


@pytest.mark.parametrize("route", [one for one in ROUTES if not one.values[0].tenants])  # type: ignore[union-attr]
def test_nobody_of_one_tenant_comes_in_where_all_are_shown(
    site: Site, secrets: dict[str, str], route: WebRoute
) -> None:
    assert knock(site, route, {"authorization": f"Bearer {secrets['theirs']}"}) == 403


@pytest.mark.parametrize("route", CHANGING)
def test_a_browser_changes_nothing_unless_our_own_page_asks(
    site: Site, secrets: dict[str, str], route: WebRoute
) -> None:
    signed_in = {"duly_session": secrets["session"], "duly_csrf": "known"}
    ours = {"origin": ORIGIN, "x-csrf-token": "known"}
    assert knock(site, route, {"origin": ORIGIN}, **signed_in) == 403
    assert knock(site, route, ours | {"x-csrf-token": "other"}, **signed_in) == 403
    assert knock(site, route, {"x-csrf-token": "known"}, **signed_in) == 403
    assert knock(site, route, ours | {"origin": "https://evil.example"}, **signed_in) == 403
    assert knock(site, route, ours | {"origin": "null"}, **signed_in) == 403
    assert knock(site, route, ours, **signed_in) not in {401, 403}


@pytest.mark.parametrize("route", [one for one in ROUTES if "stream" not in one.values[0].path])  # type: ignore[union-attr]
def test_whoever_may_comes_in(site: Site, secrets: dict[str, str], route: WebRoute) -> None:
    headers = {"authorization": f"Bearer {secrets['admin']}", "content-type": "application/json"}
    assert knock(site, route, headers) not in {401, 403, 405, 500}


def test_every_answer_is_shielded(site: Site) -> None:
    for path in ("/", "/login", "/healthz", "/nowhere", "/static/0/duly.css"):
        headers = site.client.get(path, follow_redirects=False).headers
        policy = headers["content-security-policy"]
        assert "script-src 'self'" in policy, path
        assert "unsafe" not in policy, path
        assert "frame-ancestors 'none'" in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "same-origin"

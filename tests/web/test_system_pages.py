"""The pages about what is below: the doctor, the audit log, tokens and settings."""

import re
from collections.abc import Iterator
from html import unescape

import pytest
from starlette.testclient import TestClient

from duly import Duly
from duly.app.web_backend import WebBackend
from duly.clock import sleep
from duly.doctor import examination as checkup
from duly.doctor.examination import Rounds
from duly.model.access import Actor, AuditedAction, Role
from duly.model.job import JobRequest
from duly.settings import Settings
from duly.store.store import Store
from duly.web import Authenticator, make_application
from duly.web.pages.system import LEVELS
from tests.infrastructure.web import ORIGIN, Site, site

HOSTILE = '"><img src=x onerror=alert(1)>'


@pytest.fixture
def there(url: str) -> Iterator[Site]:
    with site(Duly(url)) as found:
        yield found


def page(there: Site, path: str, *, role: Role = "admin", status: int = 200) -> str:
    headers = there.bearer(f"{role} {len(there.app.tokens.list())}", role)
    answer = there.client.get(path, headers=headers)
    assert answer.status_code == status, answer.text
    return unescape(answer.text)


def note(there: Site, count: int, *, who: str = "ada", subject: str = "schedule:report") -> None:
    """Somebody has done something, so many times."""

    async def work(store: Store) -> None:
        for number in range(count):
            deed = AuditedAction("try", subject, {"number": number, "password": "hunter2"})
            await store.access.append_audit(Actor(who, "person"), deed)

    there.app._lazy.call(work, async_name="")


def test_the_doctor_says_what_was_found_and_everybody_may_read_it(there: Site) -> None:
    text = examined(there, role="viewer")
    assert re.search(r"All \d+ checks are OK\.|checks found a warning|checks failed", text)
    assert '<span class="check">schema</span>' in text
    assert re.search(r"<dd>(SQLite|PostgreSQL) \d+\.", text)
    assert "none is connected" in text
    warned = "No check failed; " in text
    assert ('class="headline has-warnings"' in text) == warned, "a warning is not shown in green"


def test_each_level_of_a_check_has_its_colour(there: Site) -> None:
    link = re.search(r'href="([^"]+\.css[^"]*)"', page(there, "/system"))
    assert link
    styles = there.client.get(link[1]).text
    for level in LEVELS.values():
        assert re.search(rf"\.state\.{level}\b", styles), level


def test_the_doctor_says_what_helps(there: Site) -> None:
    async def want(store: Store) -> None:
        await store.jobs.enqueue([JobRequest(task="unknown")])

    there.app._lazy.call(want, async_name="")
    text = examined(there)
    check = text.index('<span class="check">tasks</span>')
    row = text[text.rindex("<dt>", 0, check) :].partition("</dd>")[0]
    assert "error" in row
    assert ">fix<" in row


async def test_the_doctor_looks_once_in_a_while_and_not_at_every_look(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = Duly(url)
    store = await app._lazy.store()
    rounds = Rounds(app.url)
    first = None
    while first is None:
        first = await rounds.look(store)
    assert await rounds.look(store) is first
    assert rounds._going_on is None
    monkeypatch.setattr(checkup, "REST", 0.0)
    while await rounds.look(store) is first:
        await sleep(0)
    await app.aclose()


async def test_a_store_that_cannot_be_examined_is_said_to_be_so(url: str) -> None:
    app = Duly(url)
    found = await checkup.checkup(await app._lazy.store(), ":memory:")
    assert found.headline() == "The database cannot be checked."
    assert "an in-memory database exists in one process only" in found.trouble
    await app.aclose()


@pytest.mark.parametrize("path", ["/system/audit", "/system/tokens", "/system/settings"])
def test_a_viewer_reads_why_they_do_not_see_what_is_for_admins(there: Site, path: str) -> None:
    note(there, 1, who="somebody-secret")
    there.app.tokens.create("token-secret", role="admin")
    text = page(there, path, role="viewer")
    assert "needs the admin role; you have the viewer role" in text
    assert 'aria-disabled="true"' in text
    assert "somebody-secret" not in text
    assert "token-secret" not in text
    assert "keep_history" not in text


def test_the_audit_log_is_shown_the_newest_first_and_older_by_pages(there: Site) -> None:
    note(there, 120)
    text = page(there, "/system/audit?who=ada")
    shown = entries(text)
    assert len(shown) == 50
    assert shown == sorted(shown, reverse=True)
    [older] = re.findall(r'href="([^"]*before=[^"]*)"', text)
    rest = entries(page(there, older))
    assert rest == sorted(rest, reverse=True)
    assert max(rest) < min(shown)
    last = page(there, re.findall(r'href="([^"]*before=[^"]*)"', page(there, older))[0])
    assert len(entries(last)) == 20
    assert "Older</a>" not in last


def test_the_audit_log_is_filtered_by_who_and_by_what(there: Site) -> None:
    note(there, 2, who="ada", subject="schedule:report")
    note(there, 1, who="bob", subject="queue:mail")
    assert len(entries(page(there, "/system/audit?who=bob"))) == 1
    assert len(entries(page(there, "/system/audit?subject=schedule:report"))) == 2
    assert 'href="/schedules/report">schedule:report</a>' in page(there, "/system/audit?who=ada")
    assert "Nothing in the log is by “eve”." in page(there, "/system/audit?who=eve")
    assert "the number of an entry" in page(there, "/system/audit?before=x", status=422)


def test_the_audit_log_hides_secrets_and_runs_nothing(there: Site) -> None:
    note(there, 1, who=HOSTILE, subject=f"job:{HOSTILE}")
    headers = there.bearer("somebody", "admin")
    text = there.client.get("/system/audit", headers=headers).text
    assert "hunter2" not in text
    assert "<img src=x" not in text


def test_a_token_is_made_and_its_secret_is_shown_once(there: Site) -> None:
    ours = there.sign_in("root", "admin") | {"hx-request": "true"}
    form = {"name": "ci", "role": "operator", "tenant": "", "expires": "30d"}
    answer = there.client.post("/system/tokens", data=form, headers=ours)
    [secret] = re.findall(r"<code>(duly_[^<]*)</code>", answer.text)
    assert answer.headers["cache-control"] == "no-store"
    listed = there.client.get("/system/tokens").text
    assert "ci" in listed
    assert secret not in listed
    headers = {"authorization": f"Bearer {secret}"}
    there.client.cookies.clear()
    assert there.client.get("/capacity", headers=headers).status_code == 200
    made = next(one for one in there.app.audit.list(who="root") if one.subject == "token:ci")
    assert made.how == "person"


def test_a_token_that_never_ends_and_one_of_a_tenant_are_said_to_be_so(there: Site) -> None:
    ours = there.sign_in("root", "admin")
    form = {"name": "wall", "role": "viewer", "tenant": "acme", "expires": "never"}
    text = there.client.post("/system/tokens", data=form, headers=ours).text
    assert "acme’s, and never ends" in text
    row = there.client.get("/system/tokens").text
    assert "acme" in row
    assert "▲ never" in row


def test_nobody_but_an_admin_makes_a_token(there: Site) -> None:
    ours = there.sign_in("ops", "operator")
    form = {"name": "more", "role": "admin"}
    assert there.client.post("/system/tokens", data=form, headers=ours).status_code == 403
    assert [one.name for one in there.app.tokens.list()] == ["ops"]


def test_a_role_that_there_is_not_is_refused(there: Site) -> None:
    ours = there.sign_in("root", "admin") | {"origin": ORIGIN}
    answer = there.client.post("/system/tokens", data={"name": "x", "role": "god"}, headers=ours)
    assert answer.status_code == 422
    assert "choose one of viewer, operator, admin" in answer.text


def test_a_token_that_was_revoked_is_shown_to_whoever_asks_for_those(there: Site) -> None:
    there.app.tokens.create("old", role="viewer")
    there.app.tokens.revoke("old")
    assert ">old<" not in page(there, "/system/tokens")
    text = page(there, "/system/tokens?all=1")
    assert ">old<" in text
    assert "revoked" in text


def test_settings_are_shown_with_where_they_were_said(
    there: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DULY_KEEP_FAILED", "60d")
    monkeypatch.setenv("DULY_URL", "postgresql://ada:hunter2@db/jobs")
    text = page(there, "/system/settings")
    assert "<td>60d</td><td><code>keep_failed</code></td>" in text
    assert "DULY_KEEP_FAILED" in text
    assert "postgresql://ada" in text
    assert "hunter2" not in text


def test_a_server_shows_what_it_was_told_on_its_command_line(url: str) -> None:
    app = Duly(url)
    told = Settings(port=9999, origins={"port": "--port"})
    backend = WebBackend(app._lazy, app.registry, zone=None, settings=told)
    application, _ = make_application(backend, Authenticator(backend, launch="duly_known"))
    with TestClient(application, base_url=ORIGIN) as client:
        text = client.get("/system/settings", headers={"authorization": "Bearer duly_known"}).text
    app.close()
    row = text[text.index("<code>port</code>") :].partition("</tr>")[0]
    assert "9999" in row
    assert "--port" in row


def examined(there: Site, *, role: Role = "admin") -> str:
    """What the doctor found; each look waits a while for it."""
    text = page(there, "/system", role=role)
    while "The doctor is looking." in text:
        text = page(there, "/system", role=role)
    return text


def entries(text: str) -> list[int]:
    return [int(number) for number in re.findall(r'id="entry-(\d+)"', text)]

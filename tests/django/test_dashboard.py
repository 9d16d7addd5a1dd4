"""The dashboard in the project's urls: its users and their permissions, under WSGI and ASGI."""

import asyncio
import re
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

HOME = "/ops/duly"


@pytest.fixture
def people(postgres: Any) -> Any:
    """Return a function that signs a user with some permissions in, in a kind of browser."""
    from django.contrib.auth.models import Permission, User
    from django.test import Client

    made: list[Any] = []

    def signed_in(*permissions: str, staff: bool = True, kind: Any = Client) -> Any:
        user = User.objects.create_user(f"user{len(made)}", is_staff=staff)
        made.append(user)
        user.user_permissions.set(Permission.objects.filter(codename__in=permissions))
        browser = kind()
        browser.force_login(user)
        return browser

    yield signed_in
    for user in made:
        user.delete()


def test_a_visitor_signs_in_with_django(postgres: Any) -> None:
    from django.test import Client

    answer = Client().get(f"{HOME}/schedules?filter=x")
    assert (answer.status_code, answer["location"]) == (
        302,
        "/admin/login/?next=/ops/duly/schedules%3Ffilter%3Dx",
    )


def test_only_staff_with_a_permission_gets_in(people: Any) -> None:
    from duly.django import duly
    from tests.django.shop.tasks import clean

    assert people().get(f"{HOME}/").status_code == 403
    assert people("view_duly", staff=False).get(f"{HOME}/").status_code == 403
    page = people("view_duly").get(f"{HOME}/schedules")
    assert page.status_code == 200
    text = page.content.decode()
    duly.schedules.add("every 1h", clean, name="käse")
    assert people("view_duly").get(f"{HOME}/schedules/k%C3%A4se").status_code == 200
    places = re.findall(r'(?:href|src|action|hx-[a-z:]+)="(/[^"]*)"', text)
    assert places
    assert [place for place in places if not place.startswith(f"{HOME}/")] == []


def test_a_user_who_is_not_active_has_no_role(project: None) -> None:
    from duly.django.dashboard import user_of

    def user(*, active: bool) -> Any:
        names = {"get_username": lambda: "ada", "has_perm": lambda _: True}
        return SimpleNamespace(is_active=active, is_staff=True, **names)

    assert user_of(user(active=False)) is None
    assert user_of(user(active=True)) is not None


def test_a_viewer_looks_and_an_operator_acts_under_their_own_name(people: Any) -> None:
    from django.test import Client

    from duly.django import duly
    from tests.django.shop.tasks import pack

    duly.schedules.add("every 1h", pack.bind(7), name="a/b c")
    for kinds, status, paused in ((("view_duly",), 403, False), (("operate_duly",), 200, True)):
        browser = people(*kinds, kind=partial(Client, enforce_csrf_checks=True))
        page = browser.get(f"{HOME}/schedules/a%2Fb%20c").content.decode()
        assert "every 1h" in page
        url = f"{HOME}/api/v1/schedules/a%2Fb%20c/pause"
        token = browser.cookies["duly_csrf"].value
        asked = {"data": b'{"note": "x"}', "content_type": "application/json"}
        assert browser.post(url, **asked).status_code == 403  # from another site
        ours = {"headers": {"origin": "http://shop", "host": "shop", "x-csrf-token": token}}
        assert browser.post(url, **asked, **ours).status_code == status
        assert duly.schedules.get("a/b c").paused is paused
    [entry] = [one for one in duly.audit.list() if one.action == "schedules.pause"]
    assert (entry.who, entry.how) == ("user1", "http")


def test_a_program_reads_the_counts_with_an_access_token(postgres: Any) -> None:
    from django.test import Client

    from duly.django import duly
    from tests.django.shop.tasks import mail

    mail.enqueue("ada")
    secret = duly.tokens.create("monitor", role="viewer").secret
    url = f"{HOME}/api/v1/queues"
    found = Client().get(url, headers={"authorization": f"Bearer {secret}"}).json()
    assert [(queue["name"], queue["ready"]) for queue in found["items"]] == [("mail", 1)]
    refused = Client().get(url, headers={"authorization": "Bearer duly_wrong"})
    assert refused.status_code == 401


def test_under_asgi_a_token_opens_the_api_and_a_viewer_is_no_administrator(people: Any) -> None:
    from asgiref.sync import async_to_sync
    from django.test import AsyncClient

    from duly.django import duly

    secret = duly.tokens.create("monitor", role="viewer").secret
    viewer = people("view_duly", kind=AsyncClient)

    async def statuses() -> list[int]:
        asked = [
            (AsyncClient(), "queues", {"authorization": f"Bearer {secret}"}),
            (AsyncClient(), "queues", {"authorization": "Bearer duly_wrong"}),
            (viewer, "queues", {}),
            (viewer, "tokens", {}),
        ]
        found = []
        for browser, noun, headers in asked:
            answer = await browser.get(f"{HOME}/api/v1/{noun}", headers=headers)
            assert [piece async for piece in answer.streaming_content]
            found.append(answer.status_code)
        await duly.aclose()
        return found

    assert async_to_sync(statuses)() == [200, 401, 200, 403]


def test_pages_are_live_under_asgi_and_poll_under_wsgi(people: Any) -> None:
    from asgiref.sync import async_to_sync
    from django.test import AsyncClient

    whole = people("view_duly").get(f"{HOME}/jobs?live=1")
    assert whole["content-type"].startswith("text/event-stream")
    assert b"data:" in whole.content
    browser = people("view_duly", kind=AsyncClient)

    async def look() -> tuple[str, bytes]:
        from duly.django import duly

        page = await browser.get(f"{HOME}/jobs?live=1")
        pieces, enough = list[bytes](), asyncio.Event()

        async def read() -> None:
            async for piece in page.streaming_content:
                pieces.append(piece)
                if len(pieces) == 2:
                    enough.set()

        browsing = asyncio.create_task(read())
        await enough.wait()
        browsing.cancel()
        streams = [one for one in asyncio.all_tasks() if "_begin.<locals>.run" in str(one)]
        assert len(streams) == 1
        _, pending = await asyncio.wait(streams, timeout=5)
        assert not pending  # it ends when the browser has left
        await duly.aclose()
        return page["content-type"], b"".join(pieces)

    kind, text = async_to_sync(look)()
    assert kind.startswith("text/event-stream")
    assert b"retry:" in text
    assert b"data:" in text

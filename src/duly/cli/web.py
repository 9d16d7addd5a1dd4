"""``duly web``: the dashboard and the HTTP API."""

from collections.abc import Mapping
from typing import Any, cast

import click

from duly.app.web_backend import WebBackend
from duly.cli.app_and_store import app_of, has_app, imported, run, settled, store_line
from duly.cli.options import (
    app_argument,
    serving_options,
    setting_option,
    split_settings,
    web_options,
)
from duly.cli.output import say
from duly.cli.serving import address_of, begin, given_secret, refuse_remote
from duly.connection import LazyStore
from duly.model.access import Role
from duly.registry.app_loading import find
from duly.registry.registry import Registry
from duly.runtime.console import json_records
from duly.settings import Settings
from duly.web.authentication import TrustedProxy
from duly.web.server import ServerOptions, serve_web


@click.command("web")
@app_argument
@serving_options
@web_options
@setting_option("hosts", "NAME,…")
@setting_option("trust_header", "HEADER")
@setting_option("trust_networks", "10.0.0.2/32,…")
@setting_option("trust_role", "ROLE")
@click.option("--beside", is_flag=True, hidden=True)  # started by duly up or duly dev
def web(app: str | None, *, beside: bool, **words: Any) -> None:
    """Serve the dashboard and the HTTP API.

    It prints the address to open, with a token that is valid while the server runs. On an address
    that other machines can reach, it only starts if somebody can sign in: see duly tokens create.

    \b
      duly web                     http://127.0.0.1:8400
      duly web shop.tasks          with forms for the tasks of an app
      duly web --host 0.0.0.0 --hosts duly.example.com
                                   for other machines, behind a proxy that terminates TLS
      duly web --host 0.0.0.0 --trust-header X-Forwarded-User --trust-networks 10.0.0.2/32
                                   a trusted proxy authenticates the users

    \b
    Exit codes: 0 stopped, 2 invalid usage, 3 no such app, 5 the database cannot be reached.
    """
    _serve(app, words, beside=beside)


def _serve(app: str | None, words: Mapping[str, Any], *, beside: bool) -> None:
    settings = settled(app=app, **split_settings(words)[0])
    begin(settings)
    registry, found = _tasks_of(app, settings, beside=beside)
    url = address_of(found, settings)
    refuse_remote(url)
    if not beside:
        say(store_line(url))
    zone = getattr(found, "zone", None) or settings.zone  # of the app, if it names one
    backend = WebBackend(LazyStore(url), registry, zone=zone, settings=settings)
    with json_records(settings, say):
        run(serve_web(backend, _server_options(settings), say))


def _tasks_of(app: str | None, settings: Settings, *, beside: bool) -> tuple[Registry, object]:
    """Return the tasks that the dashboard shows forms for, and their app if there is one."""
    if app is None and (beside or not has_app(settings)):
        return Registry(), None
    target = app_of(settings, "web")
    return imported(target, settings), find(target)


def _server_options(settings: Settings) -> ServerOptions:
    header, role = settings.trust_header, cast("Role", settings.trust_role)
    networks = settings.trust_networks
    return ServerOptions(
        host=settings.host,
        port=settings.port,
        names=settings.hosts,
        proxy=TrustedProxy(header=header or "", networks=networks, role=role)
        if header or networks
        else None,
        launch=given_secret(),
    )

"""``duly web``: the dashboard and the HTTP API."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

import click

from duly.cli.find_app import app_of, has_app, imported
from duly.cli.options import app_argument, parted, serving_options, web_options
from duly.cli.output import say
from duly.cli.serving import address_of, given_secret, obey, refuse_elsewhere, zone_of
from duly.cli.store import refuse, run, settled
from duly.errors import DulyError

if TYPE_CHECKING:
    from duly.model.access import Role
    from duly.registry.registry import Registry
    from duly.settings import Settings
    from duly.web.server import ServerOptions


@click.command("web")
@app_argument
@serving_options
@web_options
@click.option("--hosts", metavar="NAME,…", help="Names it answers to, beside its own machine's.")
@click.option("--trust-header", metavar="HEADER", help="In which a proxy says who somebody is.")
@click.option("--trust-networks", metavar="10.0.0.2/32,…", help="The proxies that are believed.")
@click.option("--trust-role", metavar="ROLE", help="What those may do whom it names; else viewer.")
@click.option("--beside", is_flag=True, hidden=True)  # duly up and duly dev, which say the rest
def web(app: str | None, *, beside: bool, **words: Any) -> None:
    """Show what is kept: the dashboard, and the HTTP API.

    It prints the address to open, with a token that is good as long as it runs. On an address that
    others can reach, it starts only if somebody could sign in: see duly tokens create.

    \b
      duly web                     http://127.0.0.1:8400
      duly web shop.tasks          with forms for the tasks of an app
      duly web --host 0.0.0.0 --hosts duly.example.com
                                   for others, behind a proxy that speaks TLS
      duly web --host 0.0.0.0 --trust-header X-Forwarded-User --trust-networks 10.0.0.2/32
                                   a proxy there says who somebody is

    \b
    Exit codes: 0 it was told to stop, 2 something in the command line is wrong, 3 there is no such
    app, 5 the store cannot be reached.
    """  # noqa: D301 - \b is click's mark for lines to be left as they are
    try:
        _serve(app, words, beside=beside)
    except DulyError as error:
        refuse(error)


def _serve(app: str | None, words: Mapping[str, Any], *, beside: bool) -> None:
    from duly.app import place
    from duly.app.acting import WebBackend
    from duly.connection import LazyStore
    from duly.web.server import serve_web

    settings = settled(app=app, **parted(words)[0])
    obey(settings)
    registry, found = _known(app, settings, beside=beside)
    url = address_of(found, settings)
    refuse_elsewhere(url)
    if not beside:
        say(f"store: {place(url)}")
    backend = WebBackend(LazyStore(url), registry, zone=zone_of(found, settings), settings=settings)
    run(serve_web(backend, _serving(settings), say))


def _known(app: str | None, settings: "Settings", *, beside: bool) -> "tuple[Registry, object]":
    """The tasks that forms can be made for, and the app that they are of, if there is one."""
    from duly.registry.app_loading import find
    from duly.registry.registry import Registry

    if app is None and (beside or not has_app(settings)):
        return Registry(), None
    target = app_of(settings, "web")
    return imported(target, settings), find(target)


def _serving(settings: "Settings") -> "ServerOptions":
    from duly.web.authentication import TrustedProxy
    from duly.web.server import ServerOptions

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

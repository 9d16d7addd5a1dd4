"""``duly tokens``: access tokens for the dashboard and the HTTP API."""

from typing import Any

import click

from duly.app.nouns import StoreNouns
from duly.cli.app_and_store import ask, store_option
from duly.cli.formats import (
    Listing,
    NounGroup,
    View,
    list_options,
    show_list,
)
from duly.model.access import Token
from duly.settings.loading import machine_zone
from duly.views import as_dict
from duly.views.access import TokenView
from duly.views.times import read_when

NEVER = "never"
_NAME = click.argument("name", metavar="NAME")


@click.group(cls=NounGroup)
def tokens() -> None:
    """List, create and revoke access tokens for the dashboard and the HTTP API.

    \b
      duly tokens
      duly tokens create ci --role operator
      duly tokens create acme --role viewer --tenant acme --expires 30d
      duly tokens revoke ci

    A viewer can read, an operator can also act (run, pause, retry, cancel, …), and an admin can do
    everything. The secret is printed once, when the token is created, and cannot be shown again.

    \b
    Exit codes: 0 success, 1 a token of that name exists, 2 invalid usage, 3 no such token, 5 the
    database cannot be reached.
    """


@tokens.command("list")
@click.option("--all", "revoked", is_flag=True, help="Include revoked tokens.")
@store_option
@list_options
def list_command(revoked: bool, store: str, view: View) -> None:  # noqa: FBT001 - click's
    """List the tokens by name. Their secrets are not stored, and not shown.

    \b
      duly tokens
      duly tokens --all           include revoked tokens
      duly tokens -o wide         with creation time and creator

    LAST USED is accurate to a minute.
    """
    show_list(store, view, lambda there: there.access.tokens(revoked=revoked), TOKENS)


@tokens.command("create")
@_NAME
@click.option(
    "--role",
    type=click.Choice(["viewer", "operator", "admin"]),
    required=True,
    help="viewer: read; operator: also act; admin: everything.",
)
@click.option("--tenant", metavar="T", help="Limit the token to the jobs of this tenant.")
@click.option(
    "--expires",
    metavar="90d",
    default="90d",
    show_default=True,
    help="Lifetime, as 90d, or end, as 2026-11-16; or never.",
)
@store_option
def create(*, name: str, role: Any, tenant: str | None, expires: str, store: str) -> None:  # noqa: ANN401
    """Create a token and print its secret.

    \b
      duly tokens create ci --role operator > ci.token
      duly tokens create acme --role viewer --tenant acme --expires 30d
      duly tokens create wall --role viewer --expires never

    Only the secret is written to standard output. It cannot be shown again.
    """
    end: Any = None
    if expires != NEVER:
        end = read_when(expires, zone=machine_zone(), what="--expires")
    made = ask(
        store,
        lambda there: StoreNouns(there).tokens.acreate(name, role=role, tenant=tenant, expires=end),
        make=True,
    )
    token = made.token
    whose = f", tenant {token.tenant}" if token.tenant else ""
    until = f"expires {View().moment(token.expires_at)}" if token.expires_at else "never expires"
    click.echo(f'token "{name}": {token.role}{whose}, {until}', err=True)
    click.echo(made.secret)
    click.echo("This is the secret. It is not stored and cannot be shown again.", err=True)


@tokens.command("revoke")
@_NAME
@store_option
def revoke(name: str, store: str) -> None:
    """Revoke a token: from the next request on, it is refused.

    \b
      duly tokens revoke ci
    """
    ask(store, lambda there: StoreNouns(there).tokens.arevoke(name))
    click.echo(f"revoked  {name}")


def _state(token: Token, view: View) -> str:
    if token.revoked_at is not None:
        return "revoked"
    return "valid" if token.is_valid(view.now) else "expired"


TOKENS: Listing[Token] = Listing(
    columns={
        "NAME": "name",
        "ROLE": "role",
        "TENANT": "tenant",
        "STATE": _state,
        "EXPIRES": lambda token, view: (
            NEVER if token.expires_at is None else view.left(token.expires_at)
        ),
        "LAST USED": lambda token, view: view.passed(token.last_used_at),
    },
    wide={"CREATED": "created_at", "BY": "created_by"},
    plain=lambda token: as_dict(TokenView.of(token)),
    name=lambda token: token.name,
    nothing="no tokens; create one: duly tokens create NAME --role viewer",
    colour=lambda token: "yellow" if token.revoked_at is not None else None,
)

"""``duly alerts``: the messages about problems, and a test of their receivers."""

import click

from duly.alerts.delivery import Courier
from duly.cli.app_and_store import NEEDS_YOU, run, settled, store_option
from duly.cli.formats import Listing, NounGroup, View, iso, list_options, show_list
from duly.clock import now
from duly.errors import InvalidValue
from duly.model.alert import AlertContent, AlertMessage
from duly.settings.tables import AlertSettings


@click.group(cls=NounGroup)
def alerts() -> None:
    """List the messages about problems, and test the receivers.

    \b
      duly alerts
      duly alerts --pending
      duly alerts test

    Alerts are configured in the table [alerts] of duly.toml: see docs/alerts.md.

    \b
    Exit codes: 0 success, 1 a receiver did not accept the test message, 2 invalid usage, 5 the
    database cannot be reached.
    """


@alerts.command("list")
@click.option("--pending", is_flag=True, help="Only messages that are not sent yet.")
@click.option("-n", "--limit", default=100, show_default=True, help="How many at most.")
@store_option
@list_options
def list_command(pending: bool, limit: int, store: str, view: View) -> None:  # noqa: FBT001 - click's
    """List the messages, newest first: sent, pending, or given up after three days.

    \b
      duly alerts
      duly alerts --pending           with the error of the last attempt
      duly alerts -o json
    """
    show_list(
        store, view, lambda there: there.alerts.messages(pending=pending, limit=limit), MESSAGES
    )


@alerts.command("test")
@click.option("--to", "name", metavar="NAME", help="Only to the receiver of this name.")
def test(name: str | None) -> None:
    """Send a test message to every receiver in duly.toml, and say which accepted it.

    \b
      duly alerts test
      duly alerts test --to "webhook hooks.example.com"
    """
    settings = settled().alerts
    if settings is None or not settings.to:
        raise InvalidValue("duly.toml has no [[alerts.to]]: add one with webhook or email")
    names = [one.name for one in settings.to]
    if name is not None and name not in names:
        raise InvalidValue(f'--to "{name}": there are {", ".join(names)}')
    results = run(_sent(settings, names if name is None else [name]))
    for one, error in results.items():
        click.echo(f"{one}: {'sent' if error is None else f'not sent: {error}'}")
    if any(error is not None for error in results.values()):
        raise SystemExit(NEEDS_YOU)


async def _sent(settings: AlertSettings, names: list[str]) -> dict[str, str | None]:
    said = "This is a test of the alerts of duly. Nothing is wrong."
    content = AlertContent(title=f"[{settings.name}] test", text=said)
    courier, found = Courier(settings), dict[str, str | None]()
    for name in names:
        message = AlertMessage(id=0, destination=name, made_at=now(), content=content)
        try:
            await courier.deliver(message)
            found[name] = None
        except Exception as error:  # noqa: BLE001 - whatever it is, the user is told
            found[name] = " ".join(str(error).split()) or type(error).__name__
    return found


def _plain(message: AlertMessage) -> dict[str, object]:
    return {
        "id": message.key,
        "destination": message.destination,
        "state": message.state,
        "title": message.content.title,
        "made_at": iso(message.made_at),
        "sent_at": iso(message.sent_at),
        "next_at": iso(message.next_at),
        "attempts": message.attempts,
        "error": message.error or None,
    }


_COLOURS = {"sent": None, "pending": "yellow", "given up": "red"}

MESSAGES: Listing[AlertMessage] = Listing(
    columns={
        "MADE": "made_at",
        "TO": "destination",
        "STATE": "state",
        "ATTEMPTS": "attempts",
        "TITLE": "content.title",
        "ERROR": "error",
    },
    plain=_plain,
    name=lambda message: message.key,
    nothing="no messages",
    colour=lambda message: _COLOURS[message.state],
)

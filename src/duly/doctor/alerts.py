"""Whether alerts can be sent: their settings here, and their messages in the store."""

from duly.connection import configured
from duly.doctor.finding import Finding, Patient, fine, problem
from duly.errors import InvalidValue
from duly.model.alert import AlertMessage
from duly.policy.why.answer import plural
from duly.settings.alerts import AlertSettings, filled

MOST = 100


async def alerts(patient: Patient) -> Finding:
    settings = configured().alerts
    missing = None if settings is None else _missing(settings)
    return judge_alerts(settings, missing, await patient.store.alerts.messages(limit=MOST))


def judge_alerts(
    settings: AlertSettings | None, missing: str | None, messages: list[AlertMessage]
) -> Finding:
    """Judge the settings and the newest messages; ``missing`` says what the settings lack."""
    if missing is not None:
        return problem(missing, "set the variable where duly runs, and: duly alerts test")
    unsent = [one for one in messages if one.sent_at is None and one.attempts]
    if unsent:
        said = f"{plural(len(unsent), 'message')} to {unsent[0].destination} could not be sent"
        return problem(f"{said}: {unsent[0].error}", "duly alerts --pending; duly alerts test")
    if settings is None or not settings.is_active:
        return fine("nobody is told of problems: no [alerts] in the settings here")
    names = [one.name for one in settings.to]
    return fine(f"sent to {', '.join(names)}" if names else "only pings")


def _missing(settings: AlertSettings) -> str | None:
    addresses = [settings.ping, *settings.pings.values()]
    for one in settings.to:
        addresses += [one.url, one.user, one.password, *one.headers.values()]
        addresses += [f"${{{one.sign}}}"] if one.sign else []
    try:
        for address in addresses:
            filled(address)
    except InvalidValue as error:
        return str(error)
    return None

"""Variables that begin with DULY_: settings, what other parts of duly use, and mistakes."""

import re
from collections.abc import Mapping
from typing import Final

from duly.errors import InvalidValue
from duly.settings.settings import keys
from duly.settings.suggestion import refusal

PREFIX: Final = "DULY_"

# No settings, but names that duly itself gives a meaning to. Whoever adds one says so here.
OTHERS: Final = frozenset({
    "DULY_STORE_OF_COMMAND",  # a command, to the processes that it starts
    "DULY_STARTED_ANEW",
    "DULY_SUPERVISOR",
    "DULY_LAUNCH",
    "DULY_JOB_ID",  # a job, to the program that it runs
    "DULY_DUE_AT",
    "DULY_ATTEMPT",
    "DULY_SCHEDULE",
    "DULY_FUZZ",  # the tests of duly itself
    "DULY_MEMBER",
    "DULY_TELL",
    "DULY_WITNESS",
})  # fmt: skip
_OTHERS_BEGIN = ("DULY_TEST_",)
# Kubernetes tells every pod of every service: one called "duly" or "duly-web" arrives as
# DULY_SERVICE_HOST, DULY_PORT=tcp://10.0.0.1:80, DULY_WEB_PORT_80_TCP_ADDR and so on.
_OF_SERVICE = re.compile(
    r"\w+_(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)"
)
_LINK = re.compile(r"(tcp|udp|sctp)://")


def said_in(environ: Mapping[str, str]) -> dict[str, str]:
    """The settings among the variables; an empty one says nothing, and an unknown one is refused.

    Every name that is not known is told of at once.
    """
    ours = {
        name: value
        for name, value in environ.items()
        if name.startswith(PREFIX) and value and not _belongs_to_others(name, value)
    }
    known = [variable for key in keys().values() for variable in key.variables]
    unknown = sorted(ours.keys() - set(known))
    if unknown:
        raise InvalidValue(refusal(unknown, known, place="the environment", prefix=PREFIX))
    return ours


def _belongs_to_others(name: str, value: str) -> bool:
    if name in OTHERS or name.startswith(_OTHERS_BEGIN) or _OF_SERVICE.fullmatch(name):
        return True
    return name.endswith("_PORT") and _LINK.match(value) is not None

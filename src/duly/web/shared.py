"""What all doors of an application share."""

from dataclasses import dataclass

from duly.app.acting import Lobby
from duly.web.guard import Guard
from duly.web.live import Live
from duly.web.news import News


@dataclass(frozen=True, slots=True, kw_only=True)
class House:
    lobby: Lobby
    guard: Guard
    live: Live
    news: News

"""A page: a question, and a template for the answer. Shown whole, and then kept up to date."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from starlette.responses import HTMLResponse, Response

from duly.model.access import Role
from duly.web.rendering import render, render_main
from duly.web.request import Ask
from duly.web.routes import Door
from duly.web.shared import House

Values: TypeAlias = Mapping[str, Any]
View: TypeAlias = Callable[[House, Ask], Awaitable[Values]]
LIVE = "live"  # in the query: not the page, but a stream of it


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """``view`` gives the values of the template; its block ``main`` is what is kept up to date."""

    path: str
    template: str
    view: View
    role: Role = "viewer"
    tenants: bool = False

    def door(self) -> Door:
        return Door(
            method="GET", path=self.path, role=self.role, behind=self.show, tenants=self.tenants
        )

    async def show(self, house: House, ask: Ask, _: bytes) -> Response:
        if LIVE not in ask.query:
            return HTMLResponse(render(self.template, ask, await self._values(house, ask)))
        house.live.check_room(ask.user.name)

        async def make() -> str:
            return render_main(self.template, ask, await self._values(house, ask))

        # What a page shows depends on what its reader may do, and on nothing else about them.
        user = ask.user
        seen_alike = (ask.root, ask.path, str(ask.query), ask.look.zone, user.role, user.tenant)
        return house.live.stream(seen_alike, make, who=user.name)

    async def _values(self, house: House, ask: Ask) -> Values:
        """What the page shows, below a banner that every page has."""
        overdue = await ask.front.ask(house.lobby.today.overdue)
        return {**await self.view(house, ask), "overdue": overdue}

"""The HTTP API, ``/api/v1``: everything that the command can do."""

from typing import Final

from duly.web.api.openapi import DOCUMENTATION, ENDPOINTS, VERSION
from duly.web.routes import WebRoute

API: Final[tuple[WebRoute, ...]] = (
    *(endpoint.route(VERSION) for endpoint in ENDPOINTS),
    *DOCUMENTATION.routes,
)
__all__ = ["API", "ENDPOINTS", "VERSION"]

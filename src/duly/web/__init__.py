"""The HTTP API and the dashboard, as an ASGI application.

All reads and changes go through ``duly.app`` in the name of the caller. Pages are rendered on the
server and updated by a stream; their buttons call the API.
"""

from duly.web.application import make_application
from duly.web.authentication import Authenticator, TrustedProxy

__all__ = ["Authenticator", "TrustedProxy", "make_application"]

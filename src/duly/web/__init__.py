"""The window: an HTTP API and a dashboard, as an ASGI application.

Everything is asked and done through ``duly.app``, in the name of whoever asks. Pages are made here
and kept up to date by a stream; what their buttons do is what the API does.
"""

from duly.web.application import make_application
from duly.web.authentication import Authenticator, TrustedProxy

__all__ = ["Authenticator", "TrustedProxy", "make_application"]

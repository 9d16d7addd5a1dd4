"""A WSGI application on a server of its own, in threads of this process."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from wsgiref.types import WSGIApplication

from werkzeug.serving import WSGIRequestHandler, make_server


class Silent(WSGIRequestHandler):
    def log(self, type: str, message: str, *args: object) -> None:  # noqa: A002 - its name there
        """Nothing."""


@contextmanager
def serving(application: WSGIApplication) -> Iterator[str]:
    """Serve it; the address is what a browser opens."""
    server = make_server("127.0.0.1", 0, application, threaded=True, request_handler=Silent)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()

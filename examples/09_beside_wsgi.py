"""Beside Flask, or anything else that speaks WSGI: the view enqueues, another process works.

    gunicorn 09_beside_wsgi:application &
    duly up 09_beside_wsgi.py

Small enough for one process? ``python 09_beside_wsgi.py``: the jobs run in a thread beside it.
"""

from collections.abc import Iterable
from wsgiref.simple_server import make_server
from wsgiref.types import StartResponse, WSGIEnvironment

from duly import Duly

duly = Duly()


@duly.task
def confirm(order: int) -> str:
    return f"order {order} is confirmed"


def application(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
    """A view that answers with the number of the job."""
    order = int(str(environ["PATH_INFO"]).strip("/") or 0)
    job = confirm.enqueue(order)
    start_response("202 Accepted", [("Content-Type", "text/plain")])
    return [f"{job.id}\n".encode()]


if __name__ == "__main__":
    with duly.running(), make_server("127.0.0.1", 8000, application) as server:
        server.serve_forever()

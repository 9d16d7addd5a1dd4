"""A program that uses Django, in a process of its own: Django has one configuration per process."""

from multiprocessing.connection import Connection
from typing import Any

import django
from django.conf import settings
from django.db import connection, connections, transaction
from django.db.utils import load_backend
from psycopg.conninfo import conninfo_to_dict

from duly.model.job import JobRequest
from duly.store.caller_connection import Verb, Work, enqueue_on, write_on


def serve(orders: Connection) -> None:
    """Do what is asked, and answer with the result or the error, until there is nothing more."""
    settings.configure(DATABASES={})
    django.setup()
    program = Program()
    while True:
        try:
            order, values = orders.recv()
        except EOFError:
            return
        try:
            orders.send((getattr(program, order)(*values), None))
        except Exception as error:  # noqa: BLE001 - whoever asked gets it
            orders.send((None, error))


class Program:
    block: Any
    question: str

    def begin(self, url: str, question: str, atomic: bool) -> None:
        connections["default"] = opened(url)
        self.question = question
        self.block = transaction.atomic() if atomic else None
        if self.block:
            self.block.__enter__()

    def end(self) -> None:
        if self.block:
            self.rollback()
        connection.close()

    def enqueue(self, *calls: JobRequest) -> list[int]:
        return enqueue_on(connection, calls)

    def write(self, work: Work[Any], verb: Verb) -> Any:  # noqa: ANN401 - what the work returns
        return write_on(connection, work, verb)

    def seen(self) -> list[int]:
        with connection.cursor() as cursor:
            cursor.execute(self.question)
            return [number for (number,) in cursor.fetchall()]

    def commit(self) -> None:
        block, self.block = self.block, None
        block.__exit__(None, None, None)

    def rollback(self) -> None:
        connection.set_rollback(True)
        self.commit()


def opened(url: str) -> Any:  # noqa: ANN401 - Django has no types
    filled = connections.configure_settings({"default": database(url)})["default"]
    return load_backend(filled["ENGINE"]).DatabaseWrapper(filled, "default")


def database(url: str) -> dict[str, Any]:
    if url.startswith("sqlite"):
        return {"ENGINE": "django.db.backends.sqlite3", "NAME": url.removeprefix("sqlite:///")}
    parts = conninfo_to_dict(url)
    names = {"dbname": "NAME", "host": "HOST", "port": "PORT", "user": "USER"}
    given = {name: parts[part] for part, name in names.items() if part in parts}
    return {"ENGINE": "django.db.backends.postgresql", **given}

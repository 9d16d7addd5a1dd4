"""The facade: the only place where the parts are joined."""

from duly.app.duly import Duly
from duly.app.home import SAID_BY_OPERATOR, address
from duly.app.jobs import Job
from duly.app.node import Health, Node
from duly.app.running import Roles, Running, Shift, serve
from duly.app.stores import (
    StoreReport,
    check_store,
    migrate_store,
    migrate_tables,
    open_store,
)
from duly.app.talk import sentence
from duly.app.tasks import AsyncTask, Call, Task
from duly.app.worker_words import WorkerWords, worker_options
from duly.app.workers import allow_builtin
from duly.engine.supervisor import Supervisor, follow, was_started_anew
from duly.store.connect import connect, is_postgres, is_remote, place
from duly.store.protocol import Store

__all__ = [
    "SAID_BY_OPERATOR",
    "AsyncTask",
    "Call",
    "Duly",
    "Health",
    "Job",
    "Node",
    "Roles",
    "Running",
    "Shift",
    "Store",
    "StoreReport",
    "Supervisor",
    "Task",
    "WorkerWords",
    "address",
    "allow_builtin",
    "check_store",
    "connect",
    "follow",
    "is_postgres",
    "is_remote",
    "migrate_store",
    "migrate_tables",
    "open_store",
    "place",
    "sentence",
    "serve",
    "was_started_anew",
    "worker_options",
]

"""The public API, and the parts that only the command and the web server use."""

from duly.app.duly import Duly
from duly.app.job import Job
from duly.app.tasks import AsyncTask, Call, Task
from duly.connection import (
    SAID_BY_OPERATOR,
    StoreReport,
    address,
    check_store,
    migrate_store,
    migrate_tables,
    open_store,
)
from duly.engine.supervisor import Supervisor, follow, followed, was_started_anew
from duly.engine.worker import WorkerOptions
from duly.runtime.console import sentence
from duly.runtime.node import Health, Node, WorkerWords, allow_builtin, worker_options
from duly.runtime.running import NodeLifecycle, NodeOptions, Running, serve
from duly.store.connect import connect, is_postgres, is_remote, place
from duly.store.store import Store

__all__ = [
    "SAID_BY_OPERATOR",
    "AsyncTask",
    "Call",
    "Duly",
    "Health",
    "Job",
    "Node",
    "NodeLifecycle",
    "NodeOptions",
    "Running",
    "Store",
    "StoreReport",
    "Supervisor",
    "Task",
    "WorkerOptions",
    "WorkerWords",
    "address",
    "allow_builtin",
    "check_store",
    "connect",
    "follow",
    "followed",
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

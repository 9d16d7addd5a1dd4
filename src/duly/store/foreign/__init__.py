"""Connections that are not ours: jobs are enqueued inside the transaction of whoever asks."""

from duly.store.foreign.enqueue import aenqueue_on, enqueue_on

__all__ = ["aenqueue_on", "enqueue_on"]

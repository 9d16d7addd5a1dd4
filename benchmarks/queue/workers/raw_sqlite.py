"""The limit on SQLite: finish the last batch and claim the next one in one transaction."""

import os
import sqlite3
from threading import Event

from benchmarks.queue.jobs import JOBS, URL

KEEP = """
insert into history
select id, queue, priority, task, argument, 'succeeded', attempt, worker, created_at, claimed_at,
       unixepoch()
  from job
 where id between ? and ? and worker = ?
"""

CLAIM = """
update job
   set state = 'running',
       attempt = attempt + 1,
       worker = ?,
       claimed_at = unixepoch()
 where id in (
        select id
          from job
         where queue = 'default' and state = 'ready'
         order by priority desc, id
         limit 100
       )
returning id, task, argument
"""


def main() -> None:
    connection = sqlite3.connect(os.environ[URL], timeout=30, isolation_level=None)
    connection.execute("pragma synchronous = full")
    me = os.getpid()
    done: list[int] = []
    while True:
        connection.execute("begin immediate")
        if done:
            span = (min(done), max(done), me)
            connection.execute(KEEP, span)
            connection.execute("delete from job where id between ? and ? and worker = ?", span)
        batch = connection.execute(CLAIM, [me]).fetchall()
        connection.execute("commit")
        for _, task, argument in batch:
            JOBS[task](argument)
        if not batch and not done:
            _wait_for_work(connection)
        done = [number for number, _, _ in batch]


def _wait_for_work(connection: sqlite3.Connection) -> None:
    """Looking costs 3 µs while nobody has written, so it looks often."""
    version = connection.execute("pragma data_version").fetchone()
    while connection.execute("pragma data_version").fetchone() == version:
        Event().wait(0.001)


if __name__ == "__main__":
    main()

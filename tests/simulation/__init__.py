"""A simulated world, in which everything goes wrong that can, and the same again for the same seed.

**What is real.** The engine (the loop with its scheduler, dispatcher, reaper, coroner and pruner,
the worker with its heartbeat and claimers), the store and every operation in it, and the SQL, on an
in-memory SQLite: the code that runs in production, not a model of it. Two parts are replaced: the
``Database``, and what a worker runs its jobs in.

**What is simulated.** Time, which jumps to the next timer when nothing can happen; the order in
which tasks take their turns; the network to the database, which may be slow, cut, or lose the
answer to a commit that happened; nodes, which crash between any two statements, stand still for
longer than their lease and go on in the middle of a call, and have clocks that are wrong by hours;
the clock of the database, which is set forward and back; outages, and days on which everything is
switched off. What jobs do is simulated, too: nothing, and they do it badly (``stage``). The seed
also turns the knobs, from the length of a lease to the size of a batch, and writes the schedules
and the clients.

**What a story is.** Chaos, for some minutes. Then healing: faults end, and whatever is overdue has
to be done within a few seconds. Then the reckoning. Some promises are checked after every commit
(``checkers``), from changes that triggers report and not from what the store says of itself; some
after healing (``liveness``); and at the end every due moment of every schedule is listed from its
rule and held against the ledger (``ledger``). What has to happen for a story to mean anything is
counted (``counts``), and over many stories each count must be above zero.

**What it cannot see.** SQLite has one writer, so statements of two transactions never interleave:
the interleaving tests on PostgreSQL are for that. The loose worlds come near, in which due
schedules are read outside of the transaction that fires them. There are no threads, files, sockets
or signals here, and nothing is ever on a disk: real processes that are really killed are the
business of the acceptance tests. And the rules are taken at their word: that "every day at 2" means
the right moments is shown elsewhere.

``python -m tests.simulation --seeds 1000`` plays a thousand stories; ``--seed 7`` plays one
again.
"""

from tests.simulation.counts import SOMETIMES
from tests.simulation.story import Ending, play
from tests.simulation.world import HONEST, Sabotage

__all__ = ["HONEST", "SOMETIMES", "Ending", "Sabotage", "play"]

"""How fast jobs are handed over and run, beside hand-written SQL and the peers, in one run."""

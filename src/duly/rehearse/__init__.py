"""Simulation (dry run) of a schedule.

No policy is implemented here. The plan is put into a store in memory, on a clock that jumps from
one event to the next; the scheduler's own decisions fire it, and a worker with unlimited slots
claims and settles its jobs. The result is read from that store's ledger.
"""

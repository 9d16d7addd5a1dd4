"""Jobs in processes of their own, which can be killed.

A child is a fresh interpreter that has imported the application once and runs one job at a time.
What may go wrong in a job – it hangs, it eats the memory, it takes the interpreter down with it –
ends that child and comes back as an outcome; the worker stands.

In the worker: ``ProcessPool`` (pool) seats the jobs, a ``Minder`` (minder) looks after one child, a
``Run`` (run) after one job, and ``Body`` (body) is the child as the kernel knows it. In the child:
``child`` is where it starts, ``leash`` binds its life to the worker's, ``bench`` runs a job. They
speak ``frames`` of JSON, on a socket that nobody else can reach.
"""

"""Jobs in child processes, which can be killed.

A child is a fresh interpreter that imports the application once and runs one job at a time. A job
that hangs, uses too much memory or crashes the interpreter ends its child and is reported as an
outcome; the worker goes on.

In the worker: ``pool`` holds the executor and its children, ``child_process`` starts, watches and
kills one child, ``kernel`` is the child as the kernel knows it,
``run`` follows one job and ``output`` collects its output. In the child:
``child`` is the entry point and ``child_job`` runs one job. They exchange ``frames`` of JSON over a
socket that no other process can reach.
"""

"""The registry: tasks by name, their signatures, and the context of a running task."""

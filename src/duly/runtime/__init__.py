"""A running app: the node, its workers, and the lines that they print."""

"""A running app: the node and its worker, HTTP workers, and the lines that they print."""

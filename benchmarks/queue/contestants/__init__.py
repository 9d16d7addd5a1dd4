"""Those who are measured: hand-written SQL as the limit, the peers, and duly."""

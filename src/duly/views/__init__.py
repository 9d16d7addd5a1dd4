"""Read models: what the command, the pages and the HTTP API show of each noun."""

"""SQLite: one file, one writer at a time, and nothing else to install."""

"""The store: one implementation over SQLite and PostgreSQL, with the SQL of each."""

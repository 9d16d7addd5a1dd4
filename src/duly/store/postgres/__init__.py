"""PostgreSQL, by psycopg 3: connections, transactions, notifications and statements."""

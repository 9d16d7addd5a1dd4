"""PostgreSQL, by psycopg 3: the connections, the transactions, the nudges and the statements."""

"""A remote store: the verbs of the store, asked over HTTP.

``calls`` lists the verbs and their roles, from their declarations, and runs them for a caller: the
server's half, without a web framework. ``store`` is the client's half, a ``Store`` like any other.
``codec`` converts values to JSON and back; ``http`` sends the requests, reads the secret, and maps
errors to problem documents and back.
"""

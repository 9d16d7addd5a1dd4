"""A remote store: the verbs of the store, asked over HTTP.

``calls`` lists the verbs and their roles, from their declarations. ``shapes``, ``writing`` and
``reading`` convert values to JSON and back. ``answering`` is the server's half, without a web
framework; ``store`` is the client's half, a ``Store`` like any other. ``token`` reads the secret,
``http`` sends the requests, ``problems`` maps errors to problem documents and back.
"""

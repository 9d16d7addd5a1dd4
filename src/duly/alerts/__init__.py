"""Alerts: problems are told to webhooks and by e-mail, once and together, and when they are over.

``problems`` finds them, ``policy.alerting`` decides what is told and when, ``message`` words it,
``delivery`` sends it, and ``alerter`` is the service that does all of this in one node at a time.
"""

"""Alerts: problems are sent to webhooks and by e-mail, grouped, and again when they are resolved.

``problems`` finds them, ``policy.alerting`` decides what is sent and when, ``delivery`` words and
sends it, and ``alerter`` is the service that does all of this in one node at a time.
"""

"""What is sent to the API and what it answers, by noun: the types that its OpenAPI is made of.

A body refuses fields that it does not know; a field that is left out is not the same as one that is
null. Moments are RFC 3339, durations texts such as ``5m``.
"""

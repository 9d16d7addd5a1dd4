"""Where a request goes, as a file may say it: without a user and a password.

What was found wrong is said in words of our own: those of the library may repeat a part of the
address, and a password is a part of it.
"""

from urllib.parse import urlsplit

from duly.errors import InvalidValue


def checked_url(url: str) -> str:
    if not url.lower().startswith(("http://", "https://")):
        raise InvalidValue("it begins with https:// or http://")
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        raise InvalidValue("its host or its port cannot be read") from None
    if "@" in parts.netloc:
        raise InvalidValue(
            "it holds a user or a password, which everybody could read; put it into headers, as "
            '{ Authorization = "…" }'
        )
    if not host:
        raise InvalidValue("it names no host")
    return url

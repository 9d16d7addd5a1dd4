"""What tests of the web side ask for."""

from tests.app.fixtures import furnished, postgres_url, url

__all__ = ["furnished", "postgres_url", "url"]

"""What tests of programs ask for."""

from tests.app.fixtures import furnished, postgres_url, programs, shop_is_open, url

__all__ = ["furnished", "postgres_url", "programs", "shop_is_open", "url"]

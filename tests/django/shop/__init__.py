"""An app of a Django project, for tests."""

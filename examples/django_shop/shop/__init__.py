"""The only app of the example project."""

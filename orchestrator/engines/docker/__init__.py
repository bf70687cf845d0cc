"""Sandboxes as containers of the Docker engine."""

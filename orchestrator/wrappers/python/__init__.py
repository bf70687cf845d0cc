"""The backend for Python."""

"""Numbered SQL files: each brings a journal from the version before to its own. What has landed is never changed."""

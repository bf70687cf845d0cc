"""A model that answers by a script, in the dialects of four APIs, and keeps what it was asked."""

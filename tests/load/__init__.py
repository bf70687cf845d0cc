"""Many callers at once, and two that compete."""

"""The console: pages that show what agents do, while they do it."""

"""A throw-away daemon on the real engine: what measuring and verifying both need, and nothing that only one needs."""

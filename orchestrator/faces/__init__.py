"""How callers reach the service. Errors are mapped once per face."""

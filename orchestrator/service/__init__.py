"""The use cases. They know the ports and the domain, never an adapter."""

"""The durable record of executions."""

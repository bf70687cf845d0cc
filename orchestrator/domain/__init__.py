"""What an execution is, who may ask for one, and what can go wrong. No I/O."""

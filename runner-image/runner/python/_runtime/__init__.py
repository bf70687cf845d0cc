"""What the runtime loads only when a program needs it: after a failure, or with matplotlib."""

"""What every engine shares: the frames, the session with a runner, and the relay to the gateway."""

"""The Model Context Protocol, over HTTP in the daemon and over stdio in front of it."""

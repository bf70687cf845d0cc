"""What creates and destroys sandboxes, each engine in a folder of its own."""

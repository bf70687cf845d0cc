"""What runs beside the daemon, and how it is set up."""

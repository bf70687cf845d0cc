"""What a sandbox can reach: its program's requests, checked against the execution's grant."""

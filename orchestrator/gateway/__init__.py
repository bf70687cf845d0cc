"""The only thing a sandbox can reach: checks the execution's grant, calls the upstream, keeps the ledger."""

"""What watches the daemon: Prometheus with its rules, and a dashboard for Grafana."""

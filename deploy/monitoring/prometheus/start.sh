#!/bin/sh
# Starts Prometheus. It takes a token from a file only; this one is in memory.
set -eu
umask 077
printf '%s' "$CODE_EXECUTOR_METRICS_TOKEN" >/tmp/token
unset CODE_EXECUTOR_METRICS_TOKEN
# Pages of other sites may ask it nothing: no origin is a hyphen.
exec prometheus --config.file=/etc/prometheus/prometheus.yml --web.listen-address=0.0.0.0:9090 --web.cors.origin=- \
    --storage.tsdb.path=/data --storage.tsdb.retention.time=30d --storage.tsdb.retention.size=1GB

"""What operators see of a running server: metrics at `/metrics`, log lines, the access log, traces, errors in Sentry.

Metrics are counted in memory that all processes of a server share and the supervisor owns. So any worker can answer
with the numbers of all, and a new worker goes on with the counts of the one that it replaces. Nothing is sent or
written to files. An evaluation only adds its numbers to a list, which is counted every quarter of a second.

Log lines are written by the standard library's `logging`; structlog only formats them.
"""

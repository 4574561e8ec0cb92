"""All metrics of the service, in the order in which the guide lists them."""

from __future__ import annotations

from config.monitoring.counting import Batch, Counter, Gauge, Histogram

# --- requests ---------------------------------------------------------------------------------------------------------

requests = Counter("halyard_requests_total", "Requests that were answered.", "operation", "status")
request_seconds = Histogram(
    "halyard_request_duration_seconds",
    "Seconds from the arrival of a request to its answer.",
    "operation",
    bounds=(0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10),
)

# --- flags and experiments --------------------------------------------------------------------------------------------

evaluations = Counter(
    "halyard_evaluations_total",
    "Flags that were evaluated, prerequisites included, from a `fresh` or a `stale` state; and requests for an "
    "evaluation that were `refused` (4xx) or `failed` (5xx).",
    "outcome",
)
fresh_evaluations = Batch(lambda numbers: evaluations.add(sum(numbers), "fresh"))
stale_evaluations = Batch(lambda numbers: evaluations.add(sum(numbers), "stale"))
variant_answers = Counter(
    "halyard_variant_answers_total",
    "Answers of Get Variant: `remembered` by the worker, by the `database`, or `unavailable` (503), because "
    "the database was away and the worker did not remember the user.",
    "outcome",
)
exposures_recorded = Counter(
    "halyard_exposures_recorded_total",
    "Exposures that were stored: of an `assignment` by Get Variant or a flag, or of a `report` in an event.",
    "source",
)
exposures_postponed = Counter(
    "halyard_exposures_postponed_total",
    "Evaluations of a flag that an experiment drives whose exposure was not stored, because the database was away. "
    "The next evaluation for the user stores it.",
)

# --- events -----------------------------------------------------------------------------------------------------------

events = Counter(
    "halyard_events_total",
    "Events by their answer: `accepted`, `duplicate` or `rejected`. Requests that failed with 5xx are left out.",
    "status",
)
event_reads = Counter(
    "halyard_event_reads_total",
    "With `REPLICA_URL`: lists, counts and pages of exports that were read from the `replica`, which was `current`, or "
    "from the `primary`, because the replica was `behind` or `away`, it `failed`, or it is of an `other_database`.",
    "database",
    "reason",
)

# --- capacity ---------------------------------------------------------------------------------------------------------

queue_length = Gauge("halyard_queue_length", "Requests that wait for a thread.", "pool")
pool_threads = Gauge("halyard_pool_threads", "The most threads that a pool may have.", "pool")
pool_busy = Gauge("halyard_pool_busy_threads", "Threads that serve a request now.", "pool")
bodies = Gauge("halyard_bodies_being_read", "Threads that wait for the body of a request.", "sender")
database_connections = Gauge("halyard_database_connections", "Open connections to the database.")
streams = Gauge("halyard_streams_open", "Event streams that are open.")

# --- state ------------------------------------------------------------------------------------------------------------

revision = Gauge("halyard_revision", "The revision of the configuration that the process serves.")
staleness = Gauge("halyard_staleness_seconds", "The age of that configuration; 0 while it is the newest.")
database_up = Gauge("halyard_database_up", "1 while the database answers, and 0 while it is away.")
refresh_lag = Gauge(
    "halyard_refresh_lag_seconds",
    "The longest time since the results of a running experiment were brought up to date, which readers of results and "
    "`manage.py maintain` do. The first worker measures it every 30 seconds.",
)
process_deaths = Counter("halyard_process_deaths_total", "Processes that ended unexpectedly and were replaced.", "kind")

# --- webhooks ---------------------------------------------------------------------------------------------------------

webhook_deliveries = Counter(
    "halyard_webhook_deliveries_total",
    "Attempts to send a message to a webhook: `delivered`, `retried` later, or `failed` for good.",
    "outcome",
)
webhooks_waiting = Gauge(
    "halyard_webhook_deliveries_waiting",
    "Messages to webhooks that wait for an attempt, those of paused webhooks included. The first worker counts them.",
)

"""Kill switches: a token with which an alert manager may switch some flags of one environment off, and nothing else."""

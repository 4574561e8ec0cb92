"""Tests on Citus, which `make test-citus` runs. They need PostgreSQL with the extension citus."""

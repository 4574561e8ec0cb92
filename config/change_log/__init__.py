"""The change log: one numbered history of all writes of configuration."""

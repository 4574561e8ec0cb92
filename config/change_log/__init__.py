"""The change log: one numbered history of every write of configuration."""

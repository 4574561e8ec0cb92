"""Every write of flags and segments, the rules they must keep, and reading the past from the change log."""

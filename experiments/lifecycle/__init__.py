"""Creating, changing, starting, stopping and reopening experiments, and the flag that an experiment drives."""

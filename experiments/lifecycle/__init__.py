"""Creating, starting, changing, stopping and reopening experiments, and the flag that an experiment drives."""

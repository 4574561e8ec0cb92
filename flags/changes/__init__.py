"""All writes of flags and segments, the checks that they must pass, and past states from the change log."""

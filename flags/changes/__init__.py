"""All writes of flags, segments and kill switches, with their checks, and past states from the change log."""

"""Who was exposed to an experiment elsewhere, or before, from a file."""

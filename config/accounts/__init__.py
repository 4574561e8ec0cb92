"""Users and groups: their entries in the change log, and who may grant what."""

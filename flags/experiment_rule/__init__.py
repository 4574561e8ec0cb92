"""The rule that a running experiment writes into a flag, and the exposures that evaluations record."""

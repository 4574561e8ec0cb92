"""The rule that a running experiment writes into a flag, and the exposures that its evaluations record."""

"""The page of one user: flags, experiments and events, and what may be done about them."""

"""What an experiment is made of: variants, audience, groups, phases. Checks for every caller; no HTTP."""

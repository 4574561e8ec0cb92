"""The parts of an experiment: variants, audience, groups and phases, and their checks. No HTTP."""

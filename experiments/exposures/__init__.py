"""Who was exposed to which variant: assignment, its cache, and exposures that events and imports report."""

"""Who was exposed to which variant: assignment, its cache, reported exposures, and erasing them."""

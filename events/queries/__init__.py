"""Finding events and exporting them."""

"""Events: how they are recorded, counted, found, exported, imported and deleted."""

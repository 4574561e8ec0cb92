"""The results of an experiment: their figures, checks of the data, explanations, and freezing."""

"""What came of an experiment: its figures, how each of them comes about, and the doors to that."""

"""What the metrics of an experiment make of each exposed user, kept up with the events, and added up by variant."""

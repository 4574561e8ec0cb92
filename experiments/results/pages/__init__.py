"""The pages of the admin that show what came of an experiment: figures in words, cards of metrics, the verdict."""

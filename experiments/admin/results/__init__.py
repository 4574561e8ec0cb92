"""The results of an experiment in the admin: the panel, the cards of metrics, and the pages."""

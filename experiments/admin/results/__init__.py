"""The results of an experiment in the admin: cards of metrics, the panel and the pages."""

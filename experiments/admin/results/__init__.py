"""The results of an experiment in the admin: the cards of its metrics, the panel around them, and their pages."""

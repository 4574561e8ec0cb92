"""Who may do what: environments, the API keys that belong to them, and the accounts of people."""

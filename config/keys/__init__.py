"""Environments and the API keys that belong to them."""

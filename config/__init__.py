"""The project: settings, environments, API keys, the change log, and what all APIs and admin pages share.

It imports no app.
"""

"""The project: settings, environments, API keys, the change log and the plumbing of the API. It
does not import any app.
"""

"""Log lines, in text or JSON, and what may watch every request: the access log, traces and Sentry.

Everything is written by the standard library's `logging`; structlog only formats it. What watches requests costs
nothing while it is off, see `config.logs.watching`.
"""

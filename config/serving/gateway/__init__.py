"""Decides which thread serves a request, and how long it may wait. granian's own threads serve what never waits for the
database, and pools of threads serve everything else.

The gateway calls the WSGI application of `config.serving.wsgi`, and stands between it and granian. A request may be
answered by another thread than the one that granian gave it to, and later. The guide has a page about this,
`decisions/threads.md`.
"""

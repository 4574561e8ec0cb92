"""The production server behind `manage.py serve`: granian, with a supervisor of our own.

The supervisor, the workers and the gateway use private parts of granian, which the page `decisions/granian.md` of the
guide lists. So the version of granian is pinned, and `tests/system/test_serve.py` must pass before it is raised.

Another WSGI server can run `config.serving.wsgi:application`. Then changes from other hosts go unnoticed, counts of
evaluations are not stored, webhooks are not sent, and there are no event streams. Connections may be lost when a worker
dies or the server stops.
"""

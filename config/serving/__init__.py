"""The production server behind `manage.py serve`: granian, with a supervisor of our own.

The supervisor uses private parts of granian: it extends `granian.server.mp.MPServer` and replaces
its sockets (`_init_shared_socket`, `_drop_shared_socket`, `_sso`, `_shd`), its main loop
(`_serve_loop`) and how it starts workers (`_spawn_workers`, `_spawn_worker`, `WorkerProcess._spawn`). It also uses
`granian._granian.SocketHolder`. So the version of granian is pinned, and
`tests/system/test_serve.py` must pass before it is raised.

Another WSGI server can run `config.serving.wsgi:application`. Then changes from other hosts go
unnoticed, counts of evaluations are not stored, webhooks are not sent, there are no event streams,
and connections may be lost when a worker dies or the server stops. The guide has a page about this,
`decisions/granian.md`.
"""

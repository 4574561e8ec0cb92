"""A fast lane in front of Django for the few operations that clients call most.

Django and its middleware take most of the time of an evaluation. The lane serves a request only if it understands all
of it, and passes every other request on to Django unread, or with the body that was read. Each app has a module
`fast_lane` that registers its operations. They call the same functions as the views: the lane has no rules of its own.

What depends on middleware, such as security headers and CORS, the lane learns from the middleware (see `kinds`).
"""

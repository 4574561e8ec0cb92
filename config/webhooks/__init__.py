"""Webhooks: messages about writes of configuration, by the specification of Standard Webhooks.

The change log is the outbox: a change and its entry are committed together, in the order of revisions. So a write
does nothing for webhooks. `outbox` makes messages of the entries that a webhook has not had yet, and stores each
message together with how far it has read. `sender` sends what is stored, until the receiver has acknowledged it.
"""

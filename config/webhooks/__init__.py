"""Webhooks: messages about writes of configuration, by the specification of Standard Webhooks.

The change log is the outbox, so a write does nothing for webhooks. `outbox` makes messages of new changes for each
webhook, and stores them in the same transaction as the last revision that it read. `sender_thread` sends stored
messages until the receiver acknowledges them.
"""

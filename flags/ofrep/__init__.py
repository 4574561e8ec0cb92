"""OFREP, the protocol of OpenFeature's clients: other addresses and bodies than those of /v1, and the same engine."""

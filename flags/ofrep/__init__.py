"""OFREP, the protocol of OpenFeature's clients, with its event streams."""

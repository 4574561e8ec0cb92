"""Tests of `config.distribution`."""

"""Flags as code: files of flags and segments, exported and imported."""

VERSION = 1
"""The version of the files that are read and written."""

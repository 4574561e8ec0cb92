"""Flags as code: files of flags and segments, read and written. `flags.files.imports` stores what was read."""

VERSION = 1
"""The version of the files that are read and written."""

"""Flags as code: files of flags and segments, read and written. `flags.imports` stores what was read."""

"""Flags as code: files of flags and segments, read and written. `flags.files.imports` stores what was read."""

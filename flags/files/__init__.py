"""Flags as code: files of flags and segments, exported and imported."""

VERSION = 1

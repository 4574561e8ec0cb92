"""The admin pages of flags and segments."""

from flags.admin import flags, segments  # noqa: F401 (registers the pages)

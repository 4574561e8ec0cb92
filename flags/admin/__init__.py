"""The admin pages of flags, segments and kill switches."""

from flags.admin import flags, kill_switches, segments  # noqa: F401 (registers the pages)

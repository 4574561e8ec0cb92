"""Rules, traces and histories of flags in words. Pure: nothing here decides anything."""

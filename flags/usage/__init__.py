"""What evaluations leave behind: counts, stale flags, and a sample of recent users that previews changes."""

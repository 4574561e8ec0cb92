"""How often flags are evaluated, and which flags are stale."""

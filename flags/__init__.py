"""What is on for whom: flags, their rules, and the pure engine that evaluates them."""

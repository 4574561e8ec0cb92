"""A sample of the users of the last seven days in each environment, and what a change would do to them."""

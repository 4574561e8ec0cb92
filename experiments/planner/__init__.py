"""Planning experiments: what it takes to find an effect, and the doors to that."""

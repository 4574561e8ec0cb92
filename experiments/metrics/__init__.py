"""What metrics are: their definitions, how these change, and the doors to them."""

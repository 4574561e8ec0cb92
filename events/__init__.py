"""What happened: events, how they are recorded and how they are found again."""

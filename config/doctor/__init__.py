"""What `manage.py doctor` examines: whether this host can serve, and what an operator should do if it cannot."""

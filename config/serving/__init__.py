"""The production server: `manage.py serve`, its supervisor and its worker processes."""

"""What operators run: the commands, the periodic tasks, and the examinations of the doctor."""

"""What `/metrics` shows: numbers that every process of a server counts in memory that all of them share.

The memory belongs to the supervisor. So the counts of a worker that dies stay, its successor goes on with them, and any
worker can add up the counts of all. Nothing is sent or written to files. What evaluations count waits in a list for
a quarter of a second, and is then counted together: that costs an evaluation least.
"""

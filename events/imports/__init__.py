"""Files that bring history in, record by record: read twice, first to see that all of it is good,
then to write it.
"""

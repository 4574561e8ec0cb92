"""The statistics of results and plans. Pure: numbers in, numbers out, with no database and no HTTP."""

"""Importing files. A file is read twice: first to validate all records, then to write them."""

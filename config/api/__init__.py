"""The parts that all operations under /v1 share: bodies, envelope, errors, authentication,
permissions, filters, paging, schema.
"""

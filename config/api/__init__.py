"""The plumbing of the /v1 API: bodies, envelope, errors, authentication, permissions, filters, paging, schema."""

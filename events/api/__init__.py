"""The operations of /v1/events: reading bodies, views, serializers, OpenAPI."""

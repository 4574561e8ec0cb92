"""The operations of /v1 for experiments, metrics, results and planning: views, serializers, OpenAPI."""

"""The operations of /v1 for flags, segments, evaluation, rulesets and usage: views, serializers, OpenAPI."""

"""Fixtures that tests of events share with those of flags."""

from __future__ import annotations

from tests.flags.conftest import django_assert_max_num_queries

__all__ = ["django_assert_max_num_queries"]

"""Halyard's provider for OpenFeature in Python: flags by request or in process, exposures, and tracking.

It evaluates with the modules of the service itself, which are in `engine`.
"""

from __future__ import annotations

from .exposures import ExposureHook
from .provider import HalyardProvider

__all__ = ["ExposureHook", "HalyardProvider"]

"""The metrics of the invented shop: what its experiments measure besides the share of users who do something."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

REVENUE_A_WEEK = "revenue-a-week"
CAME_BACK = "came-back"
PAGES_VIEWED = "pages-viewed"

METRICS: Mapping[str, Mapping[str, Any]] = {
    REVENUE_A_WEEK: {
        "description": "What a user spends in euros within a week; the largest baskets do not decide alone.",
        "type": "revenue",
        "event": "purchase",
        "currency": "EUR",
        "window_hours": 168,
        "cap_percentile": 99.0,
    },
    CAME_BACK: {
        "description": "Who looks around again in the days after.",
        "type": "retention",
        "event": "page_view",
        "from_day": 1,
        "to_day": 8,
    },
    PAGES_VIEWED: {
        "description": "Nobody should look at fewer pages than before.",
        "type": "count",
        "event": "page_view",
        "window_hours": 72,
        "cap_value": 100.0,
        "role": "guardrail",
    },
}
"""By key, the columns of each."""

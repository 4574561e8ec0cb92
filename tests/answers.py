"""Reading answers of the API: the payload of a success, the error of a failure, each after a look at its envelope."""

from __future__ import annotations

import re
from typing import Any

SECONDS_OF_A_SLOW_TEST = 120


def data(response: Any, status: int = 200) -> Any:
    """The payload of an answer that has to be a success."""
    assert response.status_code == status, response.content
    assert response.json().keys() == {"data"}
    return response.json()["data"]


def error(response: Any, status: int, code: str) -> Any:
    """The error of an answer that has to be this failure."""
    failure = response.json()["error"]
    assert (response.status_code, failure["code"]) == (status, code), failure
    return failure


def next_page(response: Any) -> str | None:
    """The address of the next page, where there is one."""
    if "Link" not in response:
        return None
    match = re.fullmatch(r'<(http://testserver/v1/[^>]+)>; rel="next"', response["Link"])
    assert match
    return match[1]


def is_stale(response: Any) -> bool:
    """Whether an answer says that it is from memory. The tests take a while, so the age is some seconds at most."""
    return "X-Stale" in response and int(response["X-Stale"]) < SECONDS_OF_A_SLOW_TEST

"""An application with an event loop, in an environment of its own: it shows a flag, and tracks orders.

It reads one JSON array a line, a command with its arguments, and prints one line of JSON for each. It imports nothing
of this repository.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from halyard_openfeature import HalyardProvider
from openfeature import api
from openfeature.client import OpenFeatureClient
from openfeature.evaluation_context import EvaluationContext
from openfeature.track import TrackingEventDetails


async def show(client: OpenFeatureClient, flag: str, user_id: str) -> Any:
    details = await client.get_string_details_async(flag, "none", EvaluationContext(user_id, {"country": "CH"}))
    return [details.value, details.variant, details.reason, details.error_code]


async def is_on(client: OpenFeatureClient, flag: str) -> Any:
    return await client.get_boolean_value_async(flag, False, EvaluationContext("ada"))


async def order(client: OpenFeatureClient, user_id: str, amount: float) -> Any:
    details = TrackingEventDetails(amount, {"revenue": amount, "currency": "EUR"})
    client.track("order", EvaluationContext(user_id), details)
    return None


async def flush(client: OpenFeatureClient) -> Any:
    provider = client.provider
    assert isinstance(provider, HalyardProvider)
    return await provider.flush_async()


async def status(client: OpenFeatureClient) -> Any:
    return client.get_provider_status().value


COMMANDS = {"show": show, "is_on": is_on, "order": order, "flush": flush, "status": status}


def say(answer: Any) -> None:
    sys.stdout.write(f"{json.dumps(answer)}\n")
    sys.stdout.flush()


async def main(options: dict[str, Any]) -> None:
    loop = asyncio.get_running_loop()
    await asyncio.to_thread(api.set_provider_and_wait, HalyardProvider(**options))
    client = api.get_client()
    say("ready")
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        command, *arguments = json.loads(line)
        say(await COMMANDS[command](client, *arguments))


if __name__ == "__main__":
    asyncio.run(main(json.loads(sys.argv[1])))

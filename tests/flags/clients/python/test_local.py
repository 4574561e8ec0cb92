"""Evaluation in process: published evaluations, types, errors, and files to begin with."""

from __future__ import annotations

import json
import stat
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from halyard_openfeature import local, ruleset
from halyard_openfeature.engine.types import Flag
from halyard_openfeature.local import LocalEvaluator
from halyard_openfeature.ruleset import RulesetError, compile_ruleset, read_state, write_state
from openfeature.evaluation_context import EvaluationContext
from openfeature.exception import (
    FlagNotFoundError,
    GeneralError,
    ProviderNotReadyError,
    TargetingKeyMissingError,
    TypeMismatchError,
)
from openfeature.flag_evaluation import FlagType

from flags.engine.timestamps import parse_timestamp
from tests.flags.clients.python.service import PLAIN, Service, Watched
from tests.flags.engine.reference import VECTORS

ADA = EvaluationContext("ada")
TYPES = {bool: FlagType.BOOLEAN, str: FlagType.STRING, int: FlagType.INTEGER, float: FlagType.FLOAT}


class Clock:
    """The evaluator's clock, stopped."""

    now_text = ""

    @classmethod
    def now(cls, _zone: object) -> datetime:
        return parse_timestamp(cls.now_text)


def test_vectors__published_evaluations__are_reproduced(monkeypatch: pytest.MonkeyPatch) -> None:
    document = json.loads((VECTORS / "evaluations.json").read_text(encoding="utf-8"))
    evaluator = LocalEvaluator()
    evaluator.ruleset = compile_ruleset({"environment": "production", "revision": 1, **document["ruleset"]})
    monkeypatch.setattr(local, "datetime", Clock)
    wrong = []
    for case in document["evaluations"]:
        Clock.now_text = case["now"]
        expected = case["answer"]
        value = expected.get("value", expected["enabled"])
        kind = TYPES.get(type(value), FlagType.OBJECT)
        if kind is FlagType.INTEGER and evaluator.ruleset.configuration.flags[case["flag"]].is_fractional:
            kind = FlagType.FLOAT
        details = evaluator.resolve(case["flag"], kind, case["userId"], case["attributes"])
        variant = expected.get("variant", "on" if expected["enabled"] else "off")
        if (details.value, details.variant, details.flag_metadata["reason"]) != (value, variant, expected["reason"]):
            wrong.append((case, details))
    assert wrong == []


Start = Callable[..., Watched]


def test_resolve__each_type__has_value_variant_reason_and_metadata(start: Start) -> None:
    provider = start()

    plain = provider.resolve_boolean_details("plain", False, ADA)
    assert (plain.value, plain.variant, plain.reason) == (True, "on", "STATIC")
    assert plain.flag_metadata == {"flagSetId": "production", "revision": 1, "version": "0", "reason": "default"}
    price = provider.resolve_float_details("price", 1.0, ADA)
    assert (price.value, type(price.value)) == (5.0, float)
    colour = provider.resolve_string_details("colour", "", ADA)
    assert (colour.value, colour.variant, colour.reason) == ("#0f0", "green", "SPLIT")
    assert dict(colour.flag_metadata) == {
        **{"flagSetId": "production", "revision": 1, "version": "0", "reason": "rule_match", "rule": 0},
        **{"experiment": "colours", "experimentVariant": "treatment", "inExperiment": True},
    }


def test_resolve__object__is_a_copy_that_the_caller_may_change(start: Start) -> None:
    provider = start()
    first: Any = provider.resolve_object_details("banner", {}, ADA).value
    first["title"] = "changed"

    assert provider.resolve_object_details("banner", {}, ADA).value == {"title": "Ahoy", "lines": [1, 2]}


def test_resolve__what_cannot_be_served__is_an_error(subtests: pytest.Subtests, start: Start) -> None:
    for method, flag, error in [
        ("string", "plain", TypeMismatchError),
        ("integer", "plain", TypeMismatchError),
        ("integer", "price", TypeMismatchError),
        ("boolean", "no-such", FlagNotFoundError),
    ]:
        with subtests.test(method=method, flag=flag), pytest.raises(error):
            getattr(start(), f"resolve_{method}_details")(flag, None, ADA)


def test_resolve__share_without_a_user__needs_a_targeting_key(start: Start) -> None:
    with pytest.raises(TargetingKeyMissingError):
        start().resolve_boolean_details("half", False)


def test_initialize__service_is_away__has_no_flags_and_says_so(start: Start, service: Service) -> None:
    service.is_away = True
    provider = start(initialize=False)

    with pytest.raises(GeneralError):
        provider.initialize(EvaluationContext())
    with pytest.raises(ProviderNotReadyError):
        provider.resolve_boolean_details("plain", False, ADA)


def test_initialize__service_is_away__begins_with_the_last_known_state(
    start: Start, service: Service, tmp_path: Path
) -> None:
    file = tmp_path / "flags.json"
    start(environment="production", state_file=file)
    service.is_away = True

    again = start(environment="production", state_file=file)

    assert again.resolve_boolean_details("plain", False, ADA).value is True
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["flags.json"]


def test_initialize__service_is_away_and_no_file__begins_with_the_bootstrap(start: Start, service: Service) -> None:
    service.is_away = True

    provider = start(environment="production", bootstrap=service.ruleset)

    assert provider.resolve_boolean_details("plain", False, ADA).value is True


@pytest.mark.parametrize("name", ["none.json", "n" * 300], ids=["missing", "refused by the system"])
def test_initialize__service_is_away_and_file_cannot_be_read__begins_with_the_bootstrap(
    start: Start, service: Service, tmp_path: Path, name: str
) -> None:
    service.is_away = True

    provider = start(environment="production", state_file=tmp_path / name, bootstrap=service.ruleset)

    assert provider.resolve_boolean_details("plain", False, ADA).value is True


@pytest.mark.parametrize("source", ["file", "bootstrap"])
def test_initialize__state_of_another_environment__is_refused(
    start: Start, service: Service, tmp_path: Path, caplog: pytest.LogCaptureFixture, source: str
) -> None:
    file = tmp_path / "flags.json"
    write_state(file, compile_ruleset(service.ruleset), service.ruleset)
    service.is_away = True
    held = {"state_file": file} if source == "file" else {"bootstrap": service.ruleset}

    with pytest.raises(GeneralError):
        start(environment="staging", **held)
    assert "production, and not" in caplog.text


def test_initialize__key_of_another_environment__is_refused(start: Start) -> None:
    with pytest.raises(GeneralError, match=r"environment production, and not of staging"):
        start(environment="staging")


def test_provider__state_without_an_environment__is_refused(start: Start, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="environment"):
        start(state_file=tmp_path / "flags.json")


def test_state__of_another_environment__is_not_overwritten(service: Service, tmp_path: Path) -> None:
    file = tmp_path / "flags.json"
    production = compile_ruleset(service.ruleset)
    write_state(file, production, service.ruleset)
    service.environment = "staging"

    with pytest.raises(RulesetError, match="holds the environment production"):
        write_state(file, compile_ruleset(service.ruleset), service.ruleset)
    kept = read_state(file, "production")
    assert kept is not None
    assert kept.configuration.flags.keys() == production.configuration.flags.keys()


def test_state__damaged_file__is_refused(subtests: pytest.Subtests, service: Service, tmp_path: Path) -> None:
    file = tmp_path / "flags.json"
    write_state(file, compile_ruleset(service.ruleset), service.ruleset)
    whole = file.read_bytes()
    for harmed in (whole[:-1], whole.replace(b"true", b"null", 1), b""):
        with subtests.test(harmed=harmed):
            file.write_bytes(harmed)
            with pytest.raises(RulesetError, match="damaged"):
                read_state(file, "production")


def test_compile__unknown_operator__names_the_way_out(service: Service) -> None:
    condition = {"attribute": "plan", "operator": "resembles", "value": "pro"}
    service.change({**PLAIN, "rules": [{"type": "attribute", "conditions": [condition]}]})

    with pytest.raises(RulesetError, match="install the one of your service"):
        compile_ruleset(service.ruleset)


def test_compile__flag_that_did_not_change__is_not_compiled_again(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = compile_ruleset(service.ruleset)
    service.change({**PLAIN, "enabled": False})
    compiled = []

    def compile_flag(document: dict[str, Any]) -> Flag:
        compiled.append(document["key"])
        return before.configuration.flags["plain"]

    monkeypatch.setattr(ruleset, "compile_flag", compile_flag)

    after = compile_ruleset(service.ruleset, before=before)

    assert compiled == ["plain"]
    assert after.changed_since(before) == ["plain"]

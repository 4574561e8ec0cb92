"""The OpenAPI document tells the truth: it is complete, its examples hold, and it accepts what the code accepts."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import jsonschema_rs
import msgspec
import pytest
from django.urls import URLPattern
from hypothesis import example, given, settings
from hypothesis import strategies as st
from rest_framework.serializers import Serializer

from config.api.bodies import UserRequest, convert
from config.api.history_views import KINDS, AuditViewSet
from config.errors import DetailCode, ErrorCode, ValidationFailed
from config.models import SEGMENT_MEMBERS
from config.snapshot import tables
from config.urls import urlpatterns
from events.api.event_views import EventViewSet
from experiments.api.experiment_serializers import AssignmentRequestSerializer, AssignmentsRequestSerializer
from experiments.api.experiment_views import AssignmentsRequest, ExperimentViewSet
from experiments.api.metric_views import MetricViewSet
from flags.api.evaluation_serializers import (
    EvaluationRequestSerializer,
    EvaluationsRequest,
    EvaluationsRequestSerializer,
)
from flags.api.flag_views import FlagHistoryViewSet, FlagViewSet
from flags.api.segment_views import SegmentViewSet
from flags.validation.parsing import parse_flag
from tests.flags.engine.strategies import FLAGS
from tests.openapi import document, schemas, validator


def operations(prefix: str = "/") -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield path, method and description. Outside of /v1, bodies are those of a foreign protocol, which
    tests/flags/ofrep/test_openapi.py has.
    """
    for path, methods in document()["paths"].items():
        if path.startswith(prefix):
            for method, operation in methods.items():
                yield path, method, operation


def resolve(schema: dict[str, Any]) -> dict[str, Any]:
    return schemas()[schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema


# --- completeness ----------------------------------------------------------------------------------------------------


def test_document__codes__are_those_of_the_tables() -> None:
    error = schemas()["AnyError"]["properties"]["error"]["properties"]
    assert error["code"]["enum"] == [code.value for code in ErrorCode]
    assert schemas()["ErrorDetail"]["properties"]["code"]["enum"] == [code.value for code in DetailCode]


def test_document__operations__are_those_of_the_urls() -> None:
    served = {
        (re.sub(r"<\w+:(\w+)>", r"{\1}", f"/{pattern.pattern}"), method)
        for pattern in urlpatterns
        if isinstance(pattern, URLPattern)
        for method in getattr(pattern.callback, "actions", {})
        if method != "head"
    }
    assert len(served) == 63
    assert {(path, method) for path, method, _ in operations()} == served


def test_document__operation_ids__are_distinct_and_name_what_is_done() -> None:
    ids = [operation["operationId"] for *_, operation in operations()]
    assert len(set(ids)) == len(ids)
    assert all("_" in each and each.islower() for each in ids)


def test_operation__described__has_words_security_and_every_common_answer(subtests: pytest.Subtests) -> None:
    for path, method, operation in operations("/v1/"):
        with subtests.test(operation=operation["operationId"]):
            assert operation["summary"]
            assert operation["description"].endswith(".")
            of_callers = [{"bearerKey": []}, {"headerKey": []}, {"adminSession": []}]
            assert operation["security"] == ([{"killSwitchToken": []}] if path.startswith("/v1/hooks") else of_callers)
            assert {"400", "401", "403", "500", "503"} <= operation["responses"].keys()
            assert ("requestBody" in operation) == (method in ("post", "patch"))
            assert ({"413", "415"} <= operation["responses"].keys()) == ("requestBody" in operation)
            assert ("404" in operation["responses"]) == ("{" in path)
            for status, response in operation["responses"].items():
                assert response["description"]
                assert response["headers"]["X-Request-Id"]["required"]
                assert ("WWW-Authenticate" in response["headers"]) == (status == "401")
                assert ("Retry-After" in response["headers"]) == (status in ("429", "503"))


def test_operation__failing__carries_the_codes_of_its_status(subtests: pytest.Subtests) -> None:
    for *_, operation in operations("/v1/"):
        with subtests.test(operation=operation["operationId"]):
            for status, response in operation["responses"].items():
                if status < "400":
                    continue
                [content] = response["content"].values()
                error = resolve(content["schema"])["properties"]["error"]
                codes = error["properties"]["code"]["enum"]
                assert codes
                assert {ErrorCode(code).status for code in codes} == {int(status)}
                # Beside what a body says: the moment at which there was no such flag, and the part of a group that is
                # taken.
                assert ("details" in error["properties"]) == (
                    status == "400" or not {"flag_not_found", "in_use"}.isdisjoint(codes)
                )


def test_operation__examples__are_there_and_hold(subtests: pytest.Subtests) -> None:
    for *_, operation in operations():
        with subtests.test(operation=operation["operationId"]):
            contents = [response["content"] for response in operation["responses"].values() if "content" in response]
            contents += [operation["requestBody"]["content"]] if "requestBody" in operation else []
            for content in contents:
                body = content["application/json"]
                assert body["examples"]
                for each in body["examples"].values():
                    validator(body["schema"]).validate(each["value"])


def test_operation__that_succeeds__answers_data_alone_or_nothing(subtests: pytest.Subtests) -> None:
    for *_, operation in operations("/v1/"):
        with subtests.test(operation=operation["operationId"]):
            [(status, response)] = [each for each in operation["responses"].items() if each[0].startswith("2")]
            if status == "204":
                assert "content" not in response
                return
            schema = response["content"]["application/json"]["schema"]
            assert list(schema["properties"]) == schema["required"] == ["data"]
            assert schema["additionalProperties"] is False
            assert ("Location" in response["headers"]) == (status == "201")


@pytest.mark.parametrize(
    ("view", "path"),
    [
        (FlagViewSet, "flags"),
        (SegmentViewSet, "segments"),
        (MetricViewSet, "metrics"),
        (ExperimentViewSet, "experiments"),
    ],
)
def test_list__parameters__are_those_of_its_filters_and_paging(view: Any, path: str) -> None:
    assert_parameters(view, document()["paths"][f"/v1/{path}"]["get"])


@pytest.mark.parametrize(
    ("view", "path"),
    [(EventViewSet, "events"), (AuditViewSet, "audit"), (FlagHistoryViewSet, "flags/{flag_key}/history")],
)
def test_query__parameters__are_those_of_its_filters_and_paging(view: Any, path: str) -> None:
    operation = document()["paths"][f"/v1/{path}"]["get"]
    assert_parameters(view, operation)
    [limit] = [each["schema"] for each in operation["parameters"] if each["name"] == "limit"]
    assert limit == {
        "type": "integer",
        "minimum": 1,
        "maximum": view.pagination_class.max_limit,
        "default": view.pagination_class.default_limit,
    }


def assert_parameters(view: Any, operation: dict[str, Any]) -> None:
    described = {each["name"] for each in operation["parameters"] if each["in"] == "query"}
    filters = view.filterset_class.base_filters if hasattr(view, "filterset_class") else {}
    free = {name.partition(".")[0] for name in getattr(getattr(view, "filterset_class", None), "patterns", ())}
    assert described == {*filters, *free, *view.pagination_class.parameters}
    lengths = {each["name"]: each["schema"].get("maxLength") for each in operation["parameters"]}
    for name, each in filters.items():
        assert lengths[name] == each.extra.get("max_length")
    assert "Link" in operation["responses"]["200"]["headers"]
    [limit] = [each["schema"]["maximum"] for each in operation["parameters"] if each["name"] == "limit"]
    assert limit == view.pagination_class.max_limit


def test_audit__kinds_of_objects__are_all_that_the_snapshot_hears_of_and_some_more() -> None:
    # Changes of the members of a segment are shown as changes of the segment.
    kinds = {kind for table in tables.current.tables for kind in table.kinds} - {SEGMENT_MEMBERS}
    assert kinds | {"group", "kill_switch", "metric", "user", "webhook"} == set(KINDS)


def test_document__every_object_but_free_content__is_closed() -> None:
    free = {
        *("attributes", "counts", "forced", "forcedVariants", "properties", "results", "schema", "serves"),
        *("EvaluationsByKey", "OfrepRequest", "OfrepContext"),
        *("KillSwitchAlerts", "alerts"),
    }

    def objects(schema: Any, name: str = "") -> Iterator[str]:
        if isinstance(schema, dict):
            if schema.get("type") == "object" and schema.get("additionalProperties") is not False:
                yield name
            for key, value in schema.items():
                inside = value.items() if key == "properties" and isinstance(value, dict) else [(name, value)]
                for inner, part in inside:
                    yield from objects(part, inner)
        elif isinstance(schema, list):
            for part in schema:
                yield from objects(part, name)

    assert {name for title, schema in schemas().items() for name in objects(schema, title)} == free


# --- what is accepted ------------------------------------------------------------------------------------------------

TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=5) | st.sampled_from(
    ["", "u", "ü" * 200, "u" * 200, "u" * 201, "ann", "in", "equals"]
)
NUMBERS = st.integers(-10, 110) | st.floats(-1, 101) | st.integers(0, 100_000).map(lambda number: number / 1000)
SCALARS = TEXTS | NUMBERS | st.booleans()
ANYTHING = st.recursive(
    SCALARS | st.none(), lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3)
)


def objects(*alternatives: dict[str, Any]) -> st.SearchStrategy[Any]:
    """Objects of one of these shapes, some of whose fields are missing, strange, or too many."""
    return st.one_of(
        st.fixed_dictionaries({}, optional={**shape, "unknown": st.none()} if at % 2 else shape)
        for at, shape in enumerate([each for shape in alternatives for each in (shape, shape)])
    ) | st.one_of(st.fixed_dictionaries(shape) for shape in alternatives)


MODIFIERS = {"ignoreCase": st.booleans() | ANYTHING, "negate": st.booleans() | ANYTHING}
CONDITIONS = objects(
    {"attribute": TEXTS, "operator": st.sampled_from(["equals", "in"]), "value": SCALARS, **MODIFIERS},
    {
        "attribute": TEXTS,
        "operator": st.sampled_from(["notContains", "matches"]),
        "value": st.sampled_from(["", "a", 1]),
    },
    {"operator": st.just("inSegment"), "value": st.sampled_from(["beta", "be ta", "", 1]), **MODIFIERS},
    {"attribute": st.sampled_from(["userId", "plan"]), "operator": st.just("inSegment"), "value": st.just("beta")},
    {"attribute": TEXTS, "operator": st.sampled_from(["equals", "notEquals", "in", "?"]), "value": SCALARS | ANYTHING},
    {"attribute": TEXTS, "operator": st.sampled_from(["in", "notIn"]), "value": st.lists(SCALARS, max_size=3)},
    {"attribute": TEXTS, "operator": st.sampled_from(["contains", "startsWith", "endsWith"]), "value": SCALARS},
    {"attribute": TEXTS, "operator": st.sampled_from(["greaterThan", "lessThanOrEqual"]), "value": SCALARS},
    {"attribute": TEXTS, "operator": st.sampled_from(["exists", "notExists"])},
)
COMMON = {
    "name": TEXTS | ANYTHING,
    "comment": TEXTS | ANYTHING,
    "enabled": st.booleans() | ANYTHING,
    "salt": TEXTS | ANYTHING,
    "bucketBy": TEXTS | ANYTHING,
    "variant": st.sampled_from(["a", "b", "", "a b", 1, None]),
}
STEPS = objects({"at": st.sampled_from(["2026-01-31", "2026-01-31T12:00:00Z", 1]), "percentage": NUMBERS | ANYTHING})
PARTS = objects(
    {"variant": st.sampled_from(["a", "", "a b", 1]), "weight": st.sampled_from([1, 0.5, -1, "1", True, 1e10])}
)
SERVED = st.sampled_from(
    [
        [{"key": "x", "weight": 1, "serves": "a"}, {"key": "y", "weight": 0, "serves": "b"}],
        [{"key": "x", "weight": 1, "serves": "a"}],
        [{"key": "x", "weight": -1, "serves": "a"}, {"key": "y", "weight": 1, "serves": "b"}],
        [{"key": "x", "weight": 1, "serves": "a"}, {"key": "y", "weight": "1", "serves": 1}],
        [{"key": "x", "weight": 1, "serves": "a"}, {"key": "y z", "weight": 1}],
    ]
)
RULES = objects(
    {
        "type": st.just("experiment"),
        "experiment": st.just("e") | TEXTS,
        "variants": SERVED,
        "percentage": NUMBERS,
        "conditions": st.lists(CONDITIONS, max_size=1),
        "forced": st.sampled_from([{}, {"u": "x"}, {"": "x"}, {"u" * 201: "x"}, {"u": 1}, {"u": ""}, []]),
    },
    {
        "type": st.just("experiment"),
        "experiment": st.just("e"),
        "variants": SERVED | ANYTHING,
        "group": objects({"key": st.sampled_from(["g", "", 1]), "from": st.just(10), "to": st.sampled_from([20, 101])}),
    },
    {"type": st.just("percentage"), "percentage": NUMBERS, **COMMON},
    {"type": st.just("percentage"), "ramp": st.lists(STEPS, max_size=1) | ANYTHING},
    {"type": st.just("users"), "userIds": st.lists(TEXTS, max_size=3), **COMMON},
    {"type": st.just("segment"), "segment": st.sampled_from(["beta", "", "be ta", 1]), "percentage": NUMBERS},
    {"type": st.just("segment"), "segment": st.just("beta"), "split": st.lists(PARTS, max_size=1) | ANYTHING},
    {
        "type": st.just("segment"),
        "segment": st.just("beta"),
        "variant": st.just("a"),
        "split": st.lists(PARTS, max_size=1),
    },
    {"type": st.just("segment"), "segment": st.just("beta"), "startAt": st.sampled_from(["2026-01-31", "", 1])},
    {"type": st.just("percentage"), "percentage": NUMBERS},
    {"type": st.just("percentage"), "percentage": NUMBERS | ANYTHING, "conditions": st.lists(CONDITIONS, max_size=2)},
    {"type": st.just("attribute"), "conditions": st.lists(CONDITIONS, max_size=2)},
    {"type": st.just("attribute"), "percentage": NUMBERS, "conditions": st.lists(CONDITIONS, max_size=2) | ANYTHING},
    {"type": st.just("users"), "userIds": st.lists(TEXTS, max_size=3)},
    {"type": st.just("users"), "userIds": st.lists(TEXTS | ANYTHING, max_size=3), "percentage": NUMBERS},
    {"type": TEXTS, "percentage": NUMBERS, "userIds": st.lists(TEXTS, max_size=3)},
)


def rules_validator() -> jsonschema_rs.Validator:
    return validator(schemas()["FlagRequest"]["properties"]["rules"])


def is_rules(value: Any) -> bool:
    """Whether a flag with the variants `a` and `b` may have these rules."""
    variants = [{"key": "a", "value": "A"}, {"key": "b", "value": "B"}]
    try:
        parse_flag({"key": "f", "enabled": True, "rules": value, "type": "string", "variants": variants})
    except ValidationFailed:
        return False
    return True


@settings(max_examples=500, deadline=None)
@given(st.lists(RULES | ANYTHING, max_size=2) | ANYTHING)
@example([{"type": "percentage", "percentage": 100}] * 200)
@example([{"type": "percentage", "percentage": 100}] * 201)
@example([{"type": "percentage", "percentage": 0.0005}])
@example([{"type": "percentage", "percentage": True}])
@example([{"type": "users", "userIds": ["u", "u"]}])
@example([{"type": "users", "userIds": [str(at) for at in range(10_001)]}])
@example([{"type": "attribute", "conditions": []}])
@example([{"type": "attribute", "conditions": [{"attribute": "a", "operator": "exists"}] * 101}])
@example([{"type": "attribute", "conditions": [{"attribute": "a", "operator": "in", "value": [1] * 1001}]}])
def test_rules__of_any_shape__are_described_exactly_as_they_are_parsed(rules: Any) -> None:
    assert rules_validator().is_valid(rules) == is_rules(rules)


@settings(max_examples=25, deadline=None)
@given(FLAGS)
def test_rules__that_the_engine_accepts__are_described(flags: list[dict[str, Any]]) -> None:
    for flag in flags:
        parse_flag(flag)
        is_refused_anyway = r"\u0000" in json.dumps(flag)  # as in every request
        assert is_refused_anyway or rules_validator().is_valid(flag["rules"]), flag


USERS = objects(
    {"userId": TEXTS},
    {"userId": TEXTS | ANYTHING, "attributes": st.dictionaries(TEXTS, ANYTHING, max_size=3) | ANYTHING},
)


def agree(body: Any, struct: type[msgspec.Struct], serializer: type[Serializer]) -> None:
    assert (convert(body, struct) is not None) == serializer(data=body).is_valid()


@settings(max_examples=300, deadline=None)
@given(USERS | ANYTHING)
@example({"userId": "u", "attributes": None})
@example({"userId": "\ufeff"})
def test_evaluation__of_any_body__is_accepted_by_struct_and_serializer_alike(body: Any) -> None:
    agree(body, UserRequest, EvaluationRequestSerializer)


@settings(max_examples=300, deadline=None)
@given(objects({"userId": TEXTS, "record": st.booleans()}, {"userId": TEXTS, "record": ANYTHING}) | ANYTHING)
@example({"userId": "u", "record": None})
@example({"userId": "u", "record": 1})
def test_assignments__of_any_body__are_accepted_by_struct_and_serializer_alike(body: Any) -> None:
    agree(body, AssignmentsRequest, AssignmentsRequestSerializer)


KEYS = st.lists(TEXTS | st.sampled_from(["a" * 100, "a" * 101]), max_size=3)


@settings(max_examples=300, deadline=None)
@given(
    objects({"userId": TEXTS, "flags": KEYS}, {"userId": TEXTS, "attributes": ANYTHING, "flags": ANYTHING}) | ANYTHING
)
@example({"userId": "u", "flags": None})
@example({"userId": "u", "flags": []})
@example({"userId": "u", "flags": ["f", "f"]})
@example({"userId": "u", "flags": [f"f{at}" for at in range(1000)]})
@example({"userId": "u", "flags": [f"f{at}" for at in range(1001)]})
def test_evaluations__of_any_body__are_accepted_by_struct_and_serializer_alike(body: Any) -> None:
    agree(body, EvaluationsRequest, EvaluationsRequestSerializer)


@settings(max_examples=300, deadline=None)
@given(USERS | ANYTHING)
def test_assignment__of_any_body__is_accepted_by_struct_and_serializer_alike(body: Any) -> None:
    agree(body, UserRequest, AssignmentRequestSerializer)

"""Hypothesis strategies for flags, segments and users of every shape that the engine accepts."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

from hypothesis import strategies as st

from flags.engine.bucketing import BUCKETS
from flags.engine.operators import OPERATORS

NOW = datetime(2026, 3, 15, 12, tzinfo=UTC)

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
NAME = TEXT.filter(bool)
ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.just(10**400),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=10,
)
NUMBER = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
# A few values that attributes and conditions share, so that they meet.
FEW = st.sampled_from(["pro", "Pro", "a", "1.2.3", "2.0.0-rc.1", "10.1.2.3", "2026-03-10", 1, 2.5, True, False])
SCALAR = FEW | TEXT | st.booleans() | NUMBER
NAMES = st.sampled_from(["plan", "age", "userId", "country"])
ATTRIBUTES = st.dictionaries(NAMES | TEXT, FEW | st.lists(FEW, max_size=3) | ANY_JSON, max_size=4)

SEGMENT_KEYS = ["segment-a", "segment-b"]
VARIANT_KEYS = ["red", "green", "blue"]

_VALUES: dict[str, st.SearchStrategy[Any]] = {
    **dict.fromkeys(("equals", "notEquals"), SCALAR),
    **dict.fromkeys(("in", "notIn"), st.lists(SCALAR, min_size=1, max_size=5)),
    **dict.fromkeys(("contains", "notContains", "startsWith", "endsWith"), st.sampled_from(["p", "P", "1"]) | NAME),
    "matches": st.sampled_from(["^p", "o$", "[0-9]+", ".", "a|b"]),
    **dict.fromkeys(("greaterThan", "greaterThanOrEqual", "lessThan", "lessThanOrEqual"), NUMBER),
    **dict.fromkeys(("before", "after"), st.sampled_from(["-7d", "+1h", "2026-03-10", "2026-03-15T12:00:00+02:00"])),
    **{name: st.sampled_from(["1", "1.2.3", "2.0.0"]) for name in OPERATORS if name.startswith("semver")},
    "inCidr": st.sampled_from(["10.0.0.0/8", "::/0", ["10.1.2.3", "192.0.2.0/24"]]),
}
_MODIFIERS = {"ignoreCase": st.booleans(), "negate": st.booleans()}


def _condition(name: str) -> st.SearchStrategy[dict[str, Any]]:
    value = {"value": _VALUES[name]} if name in _VALUES else {}
    fields: dict[str, st.SearchStrategy[Any]] = {"attribute": NAMES, "operator": st.just(name), **value}
    return st.fixed_dictionaries(fields, optional=_MODIFIERS)


IN_SEGMENT = st.fixed_dictionaries(
    {"operator": st.just("inSegment"), "value": st.sampled_from([*SEGMENT_KEYS, "gone"])}, optional=_MODIFIERS
)
_CONDITIONS = {name: _condition(name) for name in OPERATORS if name != "inSegment"}
PLAIN_CONDITION = st.sampled_from([*_CONDITIONS]).flatmap(_CONDITIONS.__getitem__)
CONDITIONS = st.lists(PLAIN_CONDITION | IN_SEGMENT, min_size=1, max_size=2)

PERCENTAGES = st.sampled_from([100, 100, 50]) | st.integers(0, BUCKETS).map(lambda step: step / 1_000)
USER_IDS = st.lists(st.sampled_from(["user-1", "user-2"]) | NAME, min_size=1, max_size=3, unique=True)


def _moments(first: int, last: int) -> st.SearchStrategy[str]:
    return st.integers(first, last).map(lambda hours: (NOW + timedelta(hours=hours)).isoformat())


_RAMPS = st.lists(
    st.tuples(st.integers(-100, 100), PERCENTAGES), min_size=1, max_size=3, unique_by=lambda step: step[0]
).map(
    lambda steps: [
        {"at": (NOW + timedelta(hours=hour)).isoformat(), "percentage": share}
        for hour, share in sorted(steps, key=lambda step: step[0])
    ]
)
_RANGES = st.lists(
    st.tuples(st.sampled_from(["group", "e:holdback"]), st.integers(0, 60), st.integers(61, 100)).map(
        lambda part: {"salt": part[0], "from": part[1], "to": part[2]}
    ),
    min_size=1,
    max_size=2,
)
_COMMON: dict[str, st.SearchStrategy[Any]] = {
    "percentage": PERCENTAGES,
    "conditions": CONDITIONS,
    "enabled": st.sampled_from([True, True, True, False]),
    "salt": NAME,
    "bucketBy": NAMES,
    "ramp": _RAMPS,
    "ranges": _RANGES,
}
_TYPES: dict[str, dict[str, st.SearchStrategy[Any]]] = {
    "percentage": {"percentage": PERCENTAGES},
    "attribute": {"conditions": CONDITIONS},
    "users": {"userIds": USER_IDS},
    "segment": {"segment": st.sampled_from([*SEGMENT_KEYS, "gone"])},
}


def _rule(name: str, serving: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    required: dict[str, st.SearchStrategy[Any]] = {"type": st.just(name), **_TYPES[name]}
    fields = st.fixed_dictionaries(
        required, optional={field: value for field, value in _COMMON.items() if field not in required}
    )
    bounds = (
        st.just({})
        | st.fixed_dictionaries({"startAt": _moments(-99, 9)})
        | st.fixed_dictionaries({"endAt": _moments(-9, 99)})
    )
    return st.tuples(fields, bounds, serving).map(lambda parts: {**parts[0], **parts[1], **parts[2]})


def _rules(serving: st.SearchStrategy[dict[str, Any]], **sizes: int) -> st.SearchStrategy[list[dict[str, Any]]]:
    of_type = {name: _rule(name, serving) for name in _TYPES}
    return st.lists(st.sampled_from([*of_type]).flatmap(of_type.__getitem__), **sizes)


RIGHT_RULES = _rules(st.just({}), max_size=3)

_SPLITS = st.lists(st.sampled_from(VARIANT_KEYS), min_size=1, max_size=3, unique=True).map(
    lambda keys: {"split": [{"variant": key, "weight": at + 1} for at, key in enumerate(keys)]}
)
_SERVING = st.just({}) | st.sampled_from(VARIANT_KEYS).map(lambda key: {"variant": key}) | _SPLITS
_VALUED = {"type": "number", "variants": [{"key": key, "value": at} for at, key in enumerate(VARIANT_KEYS)]}
_WANTED: list[dict[str, Any]] = [{}, {"variants": ["red"]}, {"variants": ["red", "blue"]}]

FLAGS_AT_ONCE = 40


def _assemble(pool: list[dict[str, Any]], random: Random) -> list[dict[str, Any]]:
    return [_put_together(at, pool, random) for at in range(FLAGS_AT_ONCE)]


def _rule_of_experiment(pool: list[dict[str, Any]], random: Random, served: list[Any]) -> dict[str, Any]:
    variants = [{"key": key, "weight": random.choice([1, 2.5]), "serves": random.choice(served)} for key in "abc"]
    conditions = random.choice(pool).get("conditions")
    group = {"key": "group", "from": random.choice([0, 12.5]), "to": random.choice([50, 100])}
    return {
        "type": "experiment",
        "experiment": random.choice(["experiment-a", "experiment-b"]),
        "variants": variants,
        **({"percentage": random.choice([0, 50, 99.999])} if random.random() < 0.5 else {}),
        **({"conditions": conditions} if conditions else {}),
        **({"group": group} if random.random() < 0.3 else {}),
        **({"forced": {"user-1": "c"}} if random.random() < 0.3 else {}),
    }


def _put_together(at: int, pool: list[dict[str, Any]], random: Random) -> dict[str, Any]:
    rules = random.choices(pool, k=random.randint(0, 4))
    has_variants = random.random() < 0.5
    if not has_variants:
        rules = [{name: rule[name] for name in rule if name not in ("variant", "split")} for rule in rules]
        rules = [{**rule, "serves": False} if random.random() < 0.2 else rule for rule in rules]
    if random.random() < 0.2:
        rules.insert(
            random.randint(0, len(rules)),
            _rule_of_experiment(pool, random, VARIANT_KEYS if has_variants else [True, False]),
        )
    # None but those before it, so that there is no cycle; and now and then one that there is not.
    others = [f"flag-{other}" for other in range(at)] + ["gone"]
    needed = random.sample(others, k=min(len(others), random.choice([0, 0, 0, 1, 2])))
    return {
        "key": f"flag-{at}",
        "enabled": random.random() < 0.8,
        "rules": rules,
        "prerequisites": [{"flag": key, **random.choice(_WANTED)} for key in needed],
        **(_VALUED if has_variants else {}),
    }


FLAGS = st.builds(_assemble, _rules(_SERVING, min_size=6, max_size=6), st.integers(0, 2**64).map(Random))
"""Flags of a few rules each. Later flags may depend on earlier ones."""

SEGMENTS = st.tuples(
    st.fixed_dictionaries(
        {"key": st.just("segment-a")},
        optional={"userIds": USER_IDS, "conditions": st.lists(PLAIN_CONDITION, max_size=2)},
    ),
    st.fixed_dictionaries(
        {"key": st.just("segment-b")},
        optional={
            "userIds": USER_IDS,
            "conditions": st.lists(IN_SEGMENT.filter(lambda condition: condition["value"] == "segment-a"), max_size=1),
        },
    ),
).map(list)
"""Two segments, of which the second may depend on the first."""

USERS = st.sampled_from(["user-1", "user-2"]) | NAME

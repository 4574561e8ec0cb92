"""INSERT ... SELECT, several rows from one, and querysets over the rows of a SELECT."""

from __future__ import annotations

import pytest
from django.db.models import Count, Exists, F, IntegerField, Max, OuterRef, Q, Sum, TextField, Value
from django.db.models.functions import Lower

from config.database.selects import (
    Column,
    Indicator,
    NonZero,
    Part,
    Select,
    delete_returning,
    insert_select,
    rows_of,
    rows_with,
    select_of,
    unpivoted,
)
from config.models import Change
from experiments.models import UserValue
from tests.conftest import NOON

pytestmark = pytest.mark.django_db

ODD = "it's 100 %s"


@pytest.fixture(autouse=True)
def changes(db: None) -> list[Change]:
    """Changes of three objects, two of them by the same user."""
    Change.objects.all().delete()
    same = {"at": NOON, "source": "api", "kind": "flag", "object_id": "1", "after": {}}
    whose = {1: ("a", ODD), 2: ("b", ODD), 3: ("C", "ada")}
    return Change.objects.bulk_create(
        Change(revision=revision, key=key, actor=actor, **same) for revision, (key, actor) in whose.items()
    )


def lowered() -> Select:
    """The changes with their keys in lower case, and the actor as another column."""
    return select_of(Change.objects.order_by().values("revision", "actor").annotate(name=Lower("key")))


def test_select_of__values_and_annotations__names_the_columns_in_order() -> None:
    assert lowered().columns == ("revision", "actor", "name")


def test_rows_of__a_select__is_filtered_grouped_and_joined_like_a_table() -> None:
    name = Column("name", TextField())
    rows = rows_of(Change, lowered())

    assert set(rows.filter(actor=ODD).annotate(named=name).values_list("revision", "named")) == {(1, "a"), (2, "b")}
    assert [*rows.annotate(named=name).filter(named="c").values_list("revision", flat=True)] == [3]
    grouped = rows.values("actor").annotate(number=Count("revision"), last=Max(name)).order_by("number")
    assert [*grouped.values_list("actor", "number", "last")] == [("ada", 1, "c"), (ODD, 2, "b")]


def test_rows_of__rows_of_rows__keep_the_parameters_of_each() -> None:
    inner = rows_of(Change, lowered()).filter(actor=ODD).values("revision").annotate(name=Column("name", TextField()))
    outer = rows_of(Change, select_of(inner), is_fenced=True).filter(Q(revision__gt=1))

    assert [*outer.annotate(named=Column("name", TextField())).values_list("revision", "named")] == [(2, "b")]
    assert outer.count() == 1
    assert rows_of(Change, select_of(inner)).filter(pk__in=outer.values("revision")).count() == 1
    assert Change.objects.count() == 3  # the model's own queryset is not touched


def test_insert_select__rows_of_a_queryset__are_stored_by_the_names_of_fields() -> None:
    rows = (
        Change.objects.filter(actor=ODD).order_by().values("actor", "source", "kind", "object_id", "key", "after", "at")
    )
    moved = rows.annotate(revision=F("revision") + Value(10), environment=Value(ODD), reason=Value(""))

    insert_select(Change, select_of(moved), order_by="revision")
    assert set(Change.objects.filter(environment=ODD).values_list("revision", "actor", "at")) == {
        (11, ODD, NOON),
        (12, ODD, NOON),
    }


def test_unpivoted__a_wide_row__becomes_a_row_for_each_part_with_a_value() -> None:
    parts = [
        Part(0, {"value": NonZero("low"), "steps": NonZero("odd")}, is_flagged=True),
        Part(1, {"value": NonZero("high"), "events": Indicator("high", 20)}),
        Part(2, {"value": NonZero("high"), "user_id": "actor"}, required="odd"),
    ]
    numbers = {"low": F("revision") - 1, "high": F("revision") * 10, "odd": F("revision") % 2}
    wide = Change.objects.filter(revision__lt=3).order_by().values("revision", "actor").annotate(**numbers)
    names = ("value", "steps", "events", "user_id")
    select = unpivoted(UserValue, select_of(wide), ["revision"], parts, names)

    assert {*select.columns} == {"revision", "metric", "is_ranked", *names}
    rows = rows_of(UserValue, select).annotate(revision=Column("revision", IntegerField()))
    assert set(rows.values_list("revision", "metric", "is_ranked", *names)) == {
        (1, 0, True, None, 1, None, None),
        (1, 1, None, 10, None, None, None),
        (1, 2, None, 10, None, None, ODD),
        (2, 0, True, 1, None, None, None),
        (2, 1, None, 20, None, 1, None),
    }
    assert rows.aggregate(total=Sum("value"))["total"] == 41


def test_rows_with__values_of_a_text_field__are_looked_up_like_rows() -> None:
    rows = rows_with(Change, "actor", [ODD, "ada", "é \U0001f600", "a\\u0000b"])
    assert {*rows.values_list("actor", flat=True)} == {ODD, "ada", "é \U0001f600", "a\\u0000b"}
    known = Change.objects.filter(actor=OuterRef("actor"))
    assert {*rows.exclude(Exists(known)).values_list("actor", flat=True)} == {"é \U0001f600", "a\\u0000b"}
    assert not rows_with(Change, "actor", []).exists()


def test_delete_returning__some_rows__returns_fields_of_those_that_are_gone() -> None:
    assert sorted(delete_returning(Change.objects.filter(actor=ODD), "revision", "at", "after")) == [
        (1, NOON, {}),
        (2, NOON, {}),
    ]
    assert [*Change.objects.values_list("revision", flat=True)] == [3]
    assert delete_returning(Change.objects.filter(actor=ODD), "revision") == []


@pytest.mark.one_server("places on several servers say nothing")
def test_delete_returning__with_a_limit__takes_the_first_in_their_order() -> None:
    oldest = Change.objects.filter(revision__gt=0).order_by("revision")
    assert sorted(delete_returning(oldest[:2], "revision", "actor")) == [(1, ODD), (2, ODD)]
    assert delete_returning(oldest[:2], "key", skip_locked=True) == [("C",)]
    assert delete_returning(oldest[:2], "key") == []

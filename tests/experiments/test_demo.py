"""The demo: what `manage.py demo` writes, and when it writes nothing."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from io import StringIO
from statistics import NormalDist
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db.models import Max, Min

from config.models import Change, Source
from config.timestamps import parse_timestamp
from events.models import Event
from experiments import demo as demo_data
from experiments.demo_shop import MAX_EVENTS_OF_A_USER, SIGN_UP_FORM, draw
from experiments.metrics.definition import definitions_of
from experiments.models import Experiment, Exposure, Metric
from experiments.results.analyse import analyse_experiment
from flags.changes.flag_changes import create_flag
from flags.changes.segment_changes import create_segment
from flags.engine.bucketing import compile_split
from flags.models import Flag, FlagState, Segment
from tests.conftest import ACTOR, NOON

SMALL = ("--users", "40", "--events", "320", "--days", "3")

REPORTS = ("experiment_viewed", "experiment_exposure")
"""The events that report exposures: those of the shop, and those of the client in the browser."""


def demo(*arguments: str) -> str:
    out = StringIO()
    call_command("demo", *arguments, stdout=out)
    return out.getvalue()


def z_score(one: dict[str, Any], other: dict[str, Any]) -> float:
    """Return how many standard errors lie between two shares."""
    total = one["sampleSize"] + other["sampleSize"]
    pooled = sum(share["conversion"] * share["sampleSize"] for share in (one, other)) / total
    error = (pooled * (1 - pooled) * (1 / one["sampleSize"] + 1 / other["sampleSize"])) ** 0.5
    return (other["conversion"] - one["conversion"]) / error


@pytest.mark.django_db
class TestDemo:
    def test_demo__defaults__look_right_through_the_api(self, api):
        demo()
        events = Event.objects.aggregate(first=Min("timestamp"), last=Max("timestamp"))
        assert Event.objects.count() == 40_000
        assert Event.objects.values("user_id").distinct().count() > 4_900
        assert timedelta(days=13) < events["last"] - events["first"] <= timedelta(days=14)
        statuses = {entry["key"]: entry["status"] for entry in api.get("/v1/experiments").json()["data"]}
        assert statuses == {
            "checkout-button": "running",
            "delivery-date": "running",
            "sign-up-form": "stopped",
            "free-shipping-bar": "draft",
        }
        for key in ("checkout-button", "sign-up-form"):
            control, better = api.get(f"/v1/experiments/{key}").json()["data"]["results"].values()
            assert min(control["sampleSize"], better["sampleSize"]) > 1_000
            assert z_score(control, better) > NormalDist().inv_cdf(0.999)

    def test_demo__flags__differ_between_the_environments(self, production, staging):
        demo(*SMALL)
        states = {
            environment.key: {
                state.flag.key: (state.enabled, str(state.rules))
                for state in FlagState.objects.filter(environment=environment).select_related("flag")
            }
            for environment in (production, staging)
        }
        differing = [key for key, state in states["production"].items() if states["staging"][key] != state]
        types = {rule["type"] for rules in FlagState.objects.values_list("rules", flat=True) for rule in rules}
        assert 12 <= Flag.objects.count() <= 18
        assert len(differing) >= 5
        assert types == {"percentage", "attribute", "users", "segment", "experiment"}
        assert {enabled for enabled, _ in states["production"].values()} == {True, False}

    def test_demo__flags__have_what_there_is_to_see(self, production):
        demo(*SMALL)
        flags = Flag.objects.in_environment(production)
        assert {flag.type for flag in flags} == {"", "string", "number", "object"}
        assert [flag.key for flag in flags.archived()] == ["summer-sale"]
        assert [flag.key for flag in flags.expired(Change.objects.latest("revision").at)] == ["legacy-search"]
        assert [flag.key for flag in flags.exclude(prerequisites=[])] == ["one-click-order"]
        assert {flag.key for flag in flags.tagged("checkout")} == {"one-click-order", "shipping-fee"}
        assert Segment.objects.count() == 2

    def test_demo__segment_alone__is_a_database_in_use(self, db):
        create_segment(key="mine", actor=ACTOR, now=NOON)
        with pytest.raises(CommandError):
            demo(*SMALL)

    def test_demo__exposures__lie_within_the_run_of_their_experiment(self, db):
        demo("--users", "400", "--events", "3200")
        for experiment in Experiment.objects.exclude(status="draft"):
            exposures = Exposure.objects.filter(experiment=experiment)
            reports = Event.objects.filter(name__in=REPORTS, experiment=experiment.key)
            assert exposures.count() == reports.count() > 50
            assert exposures.filter(exposed_at__lt=experiment.started_at).count() == 0
            if experiment.stopped_at:
                assert exposures.filter(exposed_at__gt=experiment.stopped_at).count() == 0
            anomalies = analyse_experiment(experiment, NOON).guards
            assert (anomalies.users_in_several_variants, anomalies.events_of_unknown_variants) == (0, 0)

    def test_demo__metrics__are_measured_by_its_experiments(self, db):
        demo(*SMALL)
        types = dict(Metric.objects.values_list("key", "type"))
        assert types == {
            "revenue-a-week": "revenue",
            "came-back": "retention",
            "pages-viewed": "count",
            "products-added": "count",
        }
        running, stopped = (Experiment.objects.get(key=key) for key in ("checkout-button", "sign-up-form"))
        assert [definition.version for definition in definitions_of(running)] == [0, 1, 1]
        assert [definition.version for definition in definitions_of(stopped)] == [0, 1]
        assert [definition.key for definition in definitions_of(running) if definition.is_guardrail] == ["pages-viewed"]

    def test_demo__exposures__have_the_variant_that_the_service_would_assign(self, db):
        demo("--users", "200", "--events", "1600")
        split = compile_split(((arm.key, arm.weight) for arm in SIGN_UP_FORM.arms), SIGN_UP_FORM.key)
        exposures = Exposure.objects.filter(experiment__key=SIGN_UP_FORM.key)
        assert exposures
        assert all(exposure.variant == split(exposure.user_id) for exposure in exposures)

    def test_demo__browser_experiment__has_the_users_of_its_audience_in_the_variants_of_its_flag(self, api):
        demo("--users", "400", "--events", "3200")
        flag = Flag.objects.get(key="delivery-date")
        [state] = FlagState.objects.filter(flag=flag, environment__key="production")
        assert [rule["experiment"] for rule in state.rules] == ["delivery-date"]
        events = list(Event.objects.filter(name="experiment_exposure"))
        assert len(events) > 50
        for event in events:
            context = {"targetingKey": event.user_id, "platform": "web", "country": event.properties["country"]}
            answer = api.post("/ofrep/v1/evaluate/flags/delivery-date", {"context": context}).json()
            assert (answer["variant"], answer["metadata"]["inExperiment"]) == (event.properties["variant"], True)
        context = {"targetingKey": "newcomer", "platform": "ios", "country": "DE"}
        outside = api.post("/ofrep/v1/evaluate/flags/delivery-date", {"context": context}).json()
        assert (outside["variant"], outside["metadata"]["inExperiment"]) == ("hidden", False)

    def test_demo__purchases__carry_an_amount_in_a_currency(self, db):
        demo("--users", "200", "--events", "1600")
        purchases = Event.objects.filter(name="purchase")
        assert purchases
        assert all(event.properties["revenue"] > 0 and len(event.properties["currency"]) == 3 for event in purchases)
        assert set(Event.objects.values_list("name", flat=True)) == {
            "add_to_cart",
            "experiment_exposure",
            "experiment_viewed",
            "page_view",
            "purchase",
            "sign_up",
        }

    def test_demo__change_log__tells_when_and_by_whom_it_was_written(self, db):
        demo(*SMALL)
        changes = list(Change.objects.filter(reason="Demo data").order_by("revision"))
        moments = list(Change.objects.order_by("revision").values_list("at", flat=True))
        assert {change.kind for change in changes} == {"flag", "segment", "metric", "experiment"}
        assert {change.source for change in changes} == {Source.COMMAND}
        assert moments == sorted(moments)

    def test_demo__experiments__ran_before_they_were_written(self, db):
        demo(*SMALL)
        written = Change.objects.latest("revision").at
        stopped = Change.objects.filter(kind="experiment", key=SIGN_UP_FORM.key).first().after
        assert written - timedelta(days=3) < parse_timestamp(stopped["startedAt"])
        assert parse_timestamp(stopped["startedAt"]) < parse_timestamp(stopped["stoppedAt"]) < written

    def test_demo__database_in_use__is_refused_and_writes_nothing(self, production):
        create_flag(key="mine", environment=production, actor=ACTOR, now=NOON)
        revision = Change.objects.latest_revision()
        with pytest.raises(CommandError, match=r"^The database is not empty; "):
            demo(*SMALL)
        assert Change.objects.latest_revision() == revision
        assert not Event.objects.exists()

    def test_demo__if_empty_on_a_database_in_use__says_and_writes_nothing(self, production):
        create_flag(key="mine", environment=production, actor=ACTOR, now=NOON)
        assert demo("--if-empty", *SMALL) == ""
        assert list(Flag.objects.values_list("key", flat=True)) == ["mine"]

    def test_demo__second_time__is_refused(self, db):
        demo("--if-empty", *SMALL)
        with pytest.raises(CommandError):
            demo(*SMALL)
        assert Event.objects.count() == 320

    def test_demo__failure_half_way__leaves_nothing_behind(self, db, monkeypatch):
        revision = Change.objects.latest_revision()

        def fail(*_: Any) -> None:
            raise OSError("disk full")

        monkeypatch.setattr(demo_data, "record", fail)
        with pytest.raises(OSError, match="disk full"):
            demo(*SMALL)
        assert Change.objects.latest_revision() == revision
        assert demo_data.is_empty()

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (("--users", "0"), "--users must be 1 to 1,000,000."),
            (("--days", "-1"), "--days must be 1 to 3,650."),
            (("--events", "10000001"), "--events must be 1 to 10,000,000."),
            (("--users", "100", "--events", "799"), "--events must be at least 8 times --users."),
        ],
    )
    def test_demo__extent_out_of_range__is_refused(self, arguments, message):
        with pytest.raises(CommandError) as refusal:
            demo(*arguments)
        assert str(refusal.value) == message
        assert demo_data.is_empty()


class TestTraffic:
    def test_draw__same_seed__gives_the_same_events(self):
        assert draw(users=50, events=400, days=5, seed=7) == draw(users=50, events=400, days=5, seed=7)

    def test_draw__another_seed__gives_other_events(self):
        assert draw(users=50, events=400, days=5, seed=7) != draw(users=50, events=400, days=5, seed=8)

    @pytest.mark.parametrize("seed", range(20))
    def test_draw__fewest_events__is_exactly_as_many_in_order_within_the_span(self, seed):
        events = draw(users=60, events=60 * MAX_EVENTS_OF_A_USER, days=2, seed=seed)
        seconds = [event.second for event in events]
        assert len(events) == 480
        assert seconds == sorted(seconds)
        assert 0 <= seconds[0] <= seconds[-1] <= 2 * 24 * 3600

    def test_draw__any_user__has_at_most_so_many_events_besides_page_views(self):
        stories = Counter(
            event.user_id for event in draw(users=3000, events=24_000, days=9, seed=3) if event.name != "page_view"
        )
        assert max(stories.values()) <= MAX_EVENTS_OF_A_USER

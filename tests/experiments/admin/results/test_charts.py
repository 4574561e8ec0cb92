"""The effect by day, and by days since the exposure."""

from __future__ import annotations

from dataclasses import replace

from experiments.admin.results.charts import build_ages, build_days
from experiments.admin.results.comparisons import compare
from tests.experiments.admin.results.made import (
    CONVERSION,
    REVENUE,
    TOO_FEW,
    ages,
    compared,
    days,
    estimate,
    metric,
    variant,
    with_bounds,
)

BETTER = compared(estimate(0.1, 0.05), estimate(0.012, 0.006))


def test_days__of_a_series__are_a_drawing_and_a_table_for_each_treatment() -> None:
    series = days(3, 0.01, 0.005)
    chart = build_days(
        metric(CONVERSION, variant("blue", 0.1, series=series), variant("green", 0.11, BETTER, series=series))
    )
    assert chart is not None
    assert (chart.name, chart.effect) == ("End of", "lift over the control")
    [green] = chart.figures
    assert [day.left for day in green.days] == [0, 33.3333, 66.6666]
    first = green.days[0]
    assert (first.label, first.users, first.value, first.effect.estimate) == (
        "31 Jan 2026",
        "100",
        "10.00 %",
        "+1.60 %",
    )
    assert green.summary == (
        "green: lift over the control by day; on the last day: +1.20 %, always-valid interval +0.70 % to +1.70 %"
    )


def test_days__without_any_lift__are_drawn_as_differences() -> None:
    series = [replace(day, lift=TOO_FEW) for day in days(3, 0.01, 0.005)]
    for definition, effect, estimated in (
        (CONVERSION, "difference from the control in percentage points", "+1.20 points"),
        (REVENUE, "difference from the control in EUR", "+0.01200"),
    ):
        chart = build_days(metric(definition, variant("green", 0.11, BETTER, series=series)))
        assert chart is not None
        assert chart.effect == effect
        assert chart.figures[0].last_day.effect.estimate == estimated


def test_days__with_an_interval_that_excludes_nothing__say_so_as_the_row_does() -> None:
    nothing_excluded = with_bounds(0.2, -1.0, None)
    row = compare(CONVERSION, variant("green", 0.1), compared(nothing_excluded, estimate(0.01, 0.02)))
    series = [replace(day, lift=nothing_excluded) for day in days(1, 0.01, 0.005)]
    chart = build_days(metric(CONVERSION, variant("green", 0.11, BETTER, series=series)))
    assert chart is not None
    assert chart.figures[0].last_day.effect == row.lift
    assert row.lift.interval == "any lift is possible"


def test_days__with_nothing_known_on_the_last_day__give_the_reason() -> None:
    series = [replace(day, lift=TOO_FEW, difference=TOO_FEW) for day in days(2, 0.01, 0.005)]
    chart = build_days(metric(CONVERSION, variant("green", 0.11, BETTER, series=series)))
    assert chart is not None
    assert chart.figures[0].summary.endswith(f"on the last day: {TOO_FEW.message}")
    assert chart.figures[0].drawn.line == ""


def test_ages__of_a_metric__count_days_since_the_exposure() -> None:
    chart = build_ages(metric(CONVERSION, variant("green", 0.11, BETTER, ages=ages(3, 0.02))))
    assert chart is not None
    assert chart.name == "Day since exposure"
    assert [(day.label, day.users, day.effect.estimate) for day in chart.figures[0].days] == [
        ("day 0", "1,000", "+20.00 %"),
        ("day 1", "900", "+10.00 %"),
        ("day 2", "800", "+6.67 %"),
    ]


def test_courses__that_were_not_requested__are_not_there() -> None:
    figures = metric(CONVERSION, variant("green", 0.1, BETTER))
    assert build_days(figures) is build_ages(figures) is None

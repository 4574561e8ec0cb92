"""`manage.py simulate_aa`: check the error rates of the tests with the users of an experiment (A/A simulation)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from django.core.management.base import CommandError, CommandParser
from django.utils import timezone

from config.management.operator import OperatorCommand, find_environment
from config.management.progress import show_progress
from experiments.lifecycle.changes import get_experiment
from experiments.planner.calibration import (
    MAX_USERS,
    MIN_SPLITS,
    CalibrationReport,
    calibrate,
    total_splits,
)
from experiments.planner.calibration_outcomes import store_outcomes
from experiments.stats.calibration_simulation import GuardrailRates
from experiments.stats.sample_ratio import MISMATCH
from experiments.stats.simulation import Comparison, Labels, Look

STANDARD = "-"
MAX_ROUNDS = 100_000
MAX_LOOKS = 100
MIN_USERS_DRAWN, MAX_USERS_DRAWN = 1_000, 10_000_000


class Command(OperatorCommand):
    help = "Split an experiment's users at random many times, and report how often the tests find a false positive."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("experiment", help="the key of a started experiment")
        parser.add_argument("--metric", help="test only this metric of the experiment")
        parser.add_argument("--environment", help="the key of the environment (default: the default environment)")
        parser.add_argument(
            "--users", type=int, default=MAX_USERS, help="draw so many of the exposed users (default: %(default)s)"
        )
        parser.add_argument("--rounds", type=int, default=1000, help="the number of splits (default: %(default)s)")
        parser.add_argument("--looks", type=int, default=20, help="the looks at each split (default: %(default)s)")
        parser.add_argument("--seed", type=int, default=1, help="the seed of the random splits (default: %(default)s)")
        parser.add_argument("--json", metavar="FILE", help="write JSON to this file (- for stdout) instead of a report")

    def handle(self, *, experiment: str, environment: str | None, **options: Any) -> None:
        target = get_experiment(experiment, find_environment(environment))
        file, metric, rounds, looks, seed = (options[name] for name in ("json", "metric", "rounds", "looks", "seed"))
        _check(rounds=(1, rounds, MAX_ROUNDS), looks=(1, looks, MAX_LOOKS))
        _check(users=(MIN_USERS_DRAWN, options["users"], MAX_USERS_DRAWN))
        if file not in (None, STANDARD):
            _check_writable(file)  # now, and not only after all rounds
        now = timezone.now()
        with show_progress(self.stderr, total_splits(target, metric, rounds), "A/A", " splits") as on_progress:
            calibration = calibrate(
                target,
                now=now,
                metric=metric,
                most_users=options["users"],
                rounds=rounds,
                looks=looks,
                seed=seed,
                on_progress=on_progress,
            )
        store_outcomes(calibration.outcomes(), target.environment, now)
        if file is None:
            self.stdout.write("\n".join(_report(calibration)))
        else:
            self._write(json.dumps(calibration.as_json(), indent=2), file)

    def _write(self, content: str, file: str) -> None:
        if file == STANDARD:
            self.stdout.write(content)
            return
        with _opened(file, "w") as target:
            target.write(f"{content}\n")


def _check_writable(file: str) -> None:
    """Check that the file can be written, without leaving an empty one."""
    existed = Path(file).exists()
    with _opened(file, "a"):
        pass
    if not existed:
        Path(file).unlink()


@contextmanager
def _opened(file: str, mode: str) -> Iterator[IO[str]]:
    try:
        with Path(file).open(mode) as opened:
            yield opened
    except OSError as error:
        raise CommandError(f"Cannot write {file}: {error.strerror}.") from error


def _check(**numbers: tuple[int, int, int]) -> None:
    for name, (fewest, number, most) in numbers.items():
        if not fewest <= number <= most:
            raise CommandError(f"--{name} must be {fewest:,} to {most:,}.")


def _report(of: CalibrationReport) -> Iterator[str]:
    users = f"{of.users:,} exposed users"
    if of.users < of.exposed:
        users = f"{of.users:,} of {of.exposed:,} exposed users, drawn by their ids"
    yield (
        f"{of.experiment.key}: {users}, split at random {of.rounds:,} times (seed {of.seed}), with "
        f"{of.looks} looks each. Every difference or lift found is a false positive. The tables show the share of "
        "splits with one until each look. COVERAGE is the share of splits in which the last 95 % interval contains 0."
    )
    for rates in of.simulation.errors:
        yield from ("", _title(rates.comparison), *_table(rates.looks, rates.lifts))
        coverage = f"{_percent(rates.always_valid_coverage):>12}  {_percent(rates.fixed_horizon_coverage):>13}"
        yield f"{'COVERAGE':>12}  {coverage}"
        if rates.splits < of.rounds:
            yield (
                f"Based on {rates.splits:,} splits. The others have too few users or events, or no differences "
                "between users."
            )
    for comparison in of.simulation.untested:
        yield from ("", f"{_title(comparison)}: NOT TESTED, because no split has enough different values.")
    yield from ("", "Labels of goals, after the correction, and verdicts", *_labels(of.simulation.labels))
    if of.guardrails:
        yield from ("", "Guardrails, at any look", *_guardrails(of.guardrails))
    yield from ("", _title_of_verdicts(of), *_verdicts(of))
    yield from ("", f"Users by variant (sample ratio), at p < {MISMATCH}", *_table(of.simulation.sample_ratio))
    yield from ("", _verdict(of))
    yield from _not_stored(of)


def _not_stored(of: CalibrationReport) -> Iterator[str]:
    stored_metrics = {outcome.definition.key for outcome in of.outcomes()}
    if missing := sorted({rates.comparison.measure for rates in of.simulation.errors} - stored_metrics):
        yield f"Not stored for the checklist, which requires at least {MIN_SPLITS} splits: {', '.join(missing)}."


def _title(comparison: Comparison) -> str:
    return f"{comparison.measure}, {comparison.variant} against control{' (CUPED)' if comparison.is_cuped else ''}"


def _table(looks: Sequence[Look], lifts: Sequence[Look] = ()) -> Iterator[str]:
    """Yield the rates of the difference by look, with those of the lift beside them, if there are any."""
    more = "  LIFT: ALWAYS-VALID  FIXED-HORIZON" if lifts else ""
    yield f"{'USERS':>12}  {'ALWAYS-VALID':>12}  {'FIXED-HORIZON':>13}{more}"
    for index, look in enumerate(looks):
        of_lift = f"  {_rates(lifts[index], 18)}" if lifts else ""
        yield f"{look.users:>12,}  {_rates(look, 12)}{of_lift}"


def _rates(look: Look, width: int) -> str:
    return f"{_percent(look.always_valid):>{width}}  {_percent(look.fixed_horizon):>13}"


def _labels(labels: Sequence[Labels]) -> Iterator[str]:
    yield f"{'USERS':>12}  {'PRIMARY':>8}  {'OTHERS':>8}  {'SHIPPED':>8}  {'REJECTED':>8}"
    for look in labels:
        shares = (look.primary, look.others, look.shipped, look.rejected)
        yield f"{look.users:>12,}  {'  '.join(f'{_percent(share):>8}' for share in shares)}"


def _guardrails(guardrails: Sequence[GuardrailRates]) -> Iterator[str]:
    """Yield how often guardrails are called harmed or safe without a difference, and safe at their margin."""
    yield f"{'HARMED':>12}  {'SAFE':>8}  {'SAFE AT MARGIN':>14}"
    for rates in guardrails:
        at_margin = "not possible" if rates.safe_at_margin is None else _percent(rates.safe_at_margin)
        title = f"{rates.measure}, {rates.variant} against control"
        yield f"{_percent(rates.harmed):>12}  {_percent(rates.safe):>8}  {at_margin:>14}  {title}"


def _title_of_verdicts(of: CalibrationReport) -> str:
    title = "Verdicts, by the rule that decided, without an effect"
    if of.with_minimum_effect is None:
        return title
    return f"{title}, and with the smallest effect of interest ({100 * (of.minimum_effect or 0):.3g} %)"


def _verdicts(of: CalibrationReport) -> Iterator[str]:
    """Yield the share of splits by rule and decision: without an effect, and with the smallest one, if there is one."""
    without = {(rate.rule, rate.decision): rate.share for rate in of.simulation.verdicts}
    smallest = {(rate.rule, rate.decision): rate.share for rate in of.with_minimum_effect or ()}
    has_smallest = of.with_minimum_effect is not None
    yield f"{'NO EFFECT':>12}  {'SMALLEST  ' if has_smallest else ''}VERDICT"
    for rule, decision in dict.fromkeys([*without, *smallest]):
        beside = f"{_percent(smallest.get((rule, decision), 0.0)):>8}  " if has_smallest else ""
        words = f"{decision.replace('_', ' ')}, by the rule {rule}"
        yield f"{_percent(without.get((rule, decision), 0.0)):>12}  {beside}{words}"


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _verdict(of: CalibrationReport) -> str:
    worst = max(max(rates.looks[-1].always_valid, rates.lifts[-1].always_valid) for rates in of.simulation.errors)
    labelled = max(of.labels)
    peeking = max(rates.looks[-1].fixed_horizon for rates in of.simulation.errors)
    mismatches = of.simulation.sample_ratio[-1].always_valid
    is_right = "As promised" if of.is_as_promised else "NOT as promised"
    return (
        f"{is_right}: over {of.looks} looks, always-valid tests err in {_percent(worst)} of splits at worst "
        f"(promised: {_percent(of.alpha)} at most), labels of goals in {_percent(labelled)}{_of_guardrails(of)}, "
        f"verdicts in {_percent(max(of.wrong_verdicts.values()))}, and "
        f"the check of the sample ratio in {_percent(mismatches)} ({_percent(MISMATCH)}). Fixed-horizon tests, made "
        f"for one look, err in {_percent(peeking)}."
    )


def _of_guardrails(of: CalibrationReport) -> str:
    if not of.guardrails:
        return ""
    worst = max(max(rates.harmed, rates.safe_at_margin or 0.0) for rates in of.guardrails)
    return f", guardrails in {_percent(worst)}"

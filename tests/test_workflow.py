"""What runs the checks for a developer, on GitHub and before a commit, names what exists."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[1]
TARGETS = set(re.findall(r"^([\w./-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
WORKFLOW: dict[Any, Any] = yaml.safe_load((ROOT / ".github" / "workflows" / "checks.yml").read_text())
STEPS = [step for job in WORKFLOW["jobs"].values() for step in job["steps"]]


def targets_in(script: str) -> set[str]:
    return {target for line in re.findall(r"\bmake ([^&|;\n]+)", script) for target in line.split()}


def test_workflow__steps__call_targets_that_exist_and_all_that_must_pass_before_a_change_lands() -> None:
    called = targets_in("\n".join(step.get("run", "") for step in STEPS))
    assert called <= TARGETS
    landing = set(re.findall(r"[\w-]+", (ROOT / ".ci" / "test-and-check").read_text())) & TARGETS - {"run"}
    assert {"test", "test-postgresql", "test-system", "check"} <= landing <= called


def test_workflow__actions__have_a_fixed_version() -> None:
    used = [step["uses"] for step in STEPS if "uses" in step]
    assert used
    assert all(re.search(r"@v\d+\.\d+\.\d+$", action) for action in used)
    assert WORKFLOW[True].keys() == {"push", "pull_request"}  # YAML reads the key `on` as true


def test_hooks__before_a_commit__run_tools_of_the_project_that_exist() -> None:
    [repository] = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    assert repository["repo"] == "local"  # so that nothing is downloaded
    checked = (ROOT / "Makefile").read_text().replace("$(BIN)", ".venv/bin")
    for hook in repository["hooks"]:
        command = hook["entry"].removesuffix(" --fix")
        assert command in checked, hook["id"]
        assert hook["language"] == "system"

"""The Helm chart: values that exist, commands and settings that exist, probes, and pods without rights.

Where helm is installed, the chart is rendered as well.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from functools import cache
from typing import Any

import pytest
import yaml

from config.serving import supervisor
from tests.operations import parse_command, setting_names
from tests.system.server import ROOT

CHART = ROOT / "config/deploy/helm"
VALUES: dict[str, Any] = yaml.safe_load((CHART / "values.yaml").read_text())
TEMPLATES = {file.name: file.read_text() for file in sorted((CHART / "templates").iterdir())}
pytestmark = pytest.mark.once
OPTIONS = {"http": "--port", "streams": "--stream-port"}
with_helm = pytest.mark.skipif(shutil.which("helm") is None, reason="helm is not installed")


def paths_of(values: dict[str, Any], prefix: str = "") -> set[str]:
    """Return the dotted names of all values, and of the objects that contain them."""
    names = set()
    for name, value in values.items():
        names.add(prefix + name)
        if isinstance(value, dict):
            names |= paths_of(value, f"{prefix}{name}.")
    return names


def used() -> set[str]:
    return {name for text in TEMPLATES.values() for name in re.findall(r"\.Values\.([\w.]+)", text)}


def test_values__that_templates_use__all_exist() -> None:
    assert len(used()) > 15
    assert used() - paths_of(VALUES) == set()


def test_values__all__are_used() -> None:
    assert [
        name
        for name in sorted(paths_of(VALUES))
        if not any(name == use or name.startswith(f"{use}.") or use.startswith(f"{name}.") for use in used())
    ] == []


def test_templates__of_helpers__all_exist() -> None:
    text = "".join(TEMPLATES.values())
    assert set(re.findall(r'include "([\w.]+)"', text)) == set(re.findall(r'define "([\w.]+)"', text))


def test_blocks__of_each_template__are_closed() -> None:
    for name, text in TEMPLATES.items():
        opened = re.findall(r"\{\{-? (?:if|with|range|define) ", text)
        assert len(opened) == len(re.findall(r"\{\{-? end ", text)), name


def test_settings__large_numbers__are_written_in_full() -> None:
    [line] = [line for line in TEMPLATES["_helpers.tpl"].splitlines() if "value: " in line]
    assert 'if kindIs "float64" $value }}{{ int64 $value | quote }}' in line


def test_values__settings__exist() -> None:
    assert VALUES["settings"].keys() <= setting_names()
    named = re.findall(r"\b[A-Z]+_[A-Z_]+\b", (CHART / "values.yaml").read_text())
    assert {*named} <= setting_names()


def test_commands__of_the_containers__exist_with_their_options() -> None:
    arguments = {
        name: yaml.safe_load(found[1].replace("{{ .Values.workers }}", str(VALUES["workers"])))
        for name, text in TEMPLATES.items()
        if (found := re.search(r"args: (.*)$", text, re.MULTILINE))
    }
    assert arguments.keys() == {"deployment.yaml", "maintain.yaml", "migrate.yaml"}
    for words in arguments.values():
        parse_command(words)


def test_volume__of_each_pod__is_that_of_the_image() -> None:
    [volume] = re.findall(r"^VOLUME (\S+)$", (CHART.parent / "Dockerfile").read_text(), re.MULTILINE)
    assert f"mountPath: {volume}\n" in TEMPLATES["_helpers.tpl"]


def test_version__of_the_chart__is_that_of_the_service() -> None:
    [version] = re.findall(r'^version = "(.*)"$', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert (chart["version"], chart["appVersion"]) == (version, version)


@cache
def rendered() -> dict[str, dict[str, Any]]:
    """Return what helm makes of the chart, by kind."""
    done = subprocess.run(
        ["helm", "template", "demo", str(CHART), "--set", "ingress.enabled=true"],
        capture_output=True,
        text=True,
        check=True,
    )
    return {document["kind"]: document for document in yaml.safe_load_all(done.stdout) if document}


def pods() -> list[dict[str, Any]]:
    documents = rendered()
    return [
        documents["Deployment"]["spec"]["template"]["spec"],
        documents["Job"]["spec"]["template"]["spec"],
        documents["CronJob"]["spec"]["jobTemplate"]["spec"]["template"]["spec"],
    ]


@with_helm
def test_rendered__kinds__are_complete() -> None:
    kinds = {"Deployment", "Service", "Ingress", "Job", "CronJob", "PodDisruptionBudget"}
    assert rendered().keys() == kinds


@with_helm
def test_rendered__containers__run_commands_without_rights_and_with_settings() -> None:
    for pod in pods():
        [container] = pod["containers"]
        parse_command(container["args"])
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert {variable["name"] for variable in container["env"]} == VALUES["settings"].keys()
        assert {mount["name"] for mount in container["volumeMounts"]} == {volume["name"] for volume in pod["volumes"]}
        [source] = container["envFrom"]
        assert source == {"secretRef": {"name": VALUES["existingSecret"]}}


@with_helm
def test_rendered__server__is_probed_and_has_time_to_stop() -> None:
    pod = pods()[0]
    [container] = pod["containers"]
    probes = [container[f"{name}Probe"]["httpGet"] for name in ("startup", "liveness", "readiness")]
    assert probes == [{"path": path, "port": "http"} for path in ("/livez", "/livez", "/readyz")]
    pause = int(container["lifecycle"]["preStop"]["exec"]["command"][1])
    assert pod["terminationGracePeriodSeconds"] > pause + supervisor._PATIENCE_SECONDS


@with_helm
def test_rendered__service_and_ingress__lead_to_ports_of_the_server() -> None:
    documents = rendered()
    [container] = pods()[0]["containers"]
    named = {port["name"]: str(port["containerPort"]) for port in container["ports"]}
    words = container["args"]
    assert named == {name: words[words.index(option) + 1] for name, option in OPTIONS.items()}
    assert {port["targetPort"] for port in documents["Service"]["spec"]["ports"]} == named.keys()
    labels = documents["Deployment"]["spec"]["template"]["metadata"]["labels"]
    for kind in ("Service", "PodDisruptionBudget"):
        selector = documents[kind]["spec"]["selector"]
        assert selector.get("matchLabels", selector).items() <= labels.items()
    [rule] = documents["Ingress"]["spec"]["rules"]
    paths = {path["path"]: path["backend"]["service"]["port"]["name"] for path in rule["http"]["paths"]}
    assert paths == {"/ofrep/v1/streams/": "streams", "/": "http"}

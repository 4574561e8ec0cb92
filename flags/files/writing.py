"""JSON values as text: YAML in blocks, as people edit it, or JSON. `yaml_parts` and `json_parts` read it again."""

from __future__ import annotations

import json
from typing import Any

import yaml

from flags.files.parts import resolve

VERSION = 1
"""Of the files that are written and read here."""


def write(value: Any, form: str) -> str:
    """The value in the form `yaml` or `json`."""
    return write_json(value) if form == "json" else write_yaml(value)


def write_json(value: Any) -> str:
    """The value as JSON in lines."""
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def write_yaml(value: Any) -> str:
    """The value as YAML in blocks; what another reader might take for something else stands in quotes."""
    text: str = yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=float("inf"))
    return text.removesuffix("...\n")  # which ends a document that is one value alone


class _Dumper(yaml.SafeDumper):
    """PyYAML knows what readers of YAML 1.1 take for something else than a string; here is what readers of JSON do."""

    def ignore_aliases(self, data: Any) -> bool:
        return True

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, indentless=False)  # elements of a list stand below its name


def _represent_text(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    lines = text.split("\n")
    # PyYAML itself writes some of what cannot be seen so that it reads something else.
    must_be_quoted = not all(map(str.isprintable, lines)) or not isinstance(resolve(text), str)
    style = '"' if must_be_quoted else "|" if len(lines) > 1 else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _represent_text)

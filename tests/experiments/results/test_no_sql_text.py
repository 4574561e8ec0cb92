"""Experiments are read and written by querysets: text of SQL is in `config.database`, or a template without data."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

FOLDER = Path(__file__).parents[3] / "experiments"
EXPRESSIONS = FOLDER / "results" / "expressions.py"
EXECUTING = frozenset({"cursor", "execute", "executemany", "raw", "extra", "RawSQL"})
"""What is called to execute a text."""
COMPILING = re.compile(r"as_(sql|sqlite|postgresql)|(template|function|postgresql|sqlite)")
"""What an expression writes itself with."""


def modules() -> Iterator[tuple[Path, ast.Module]]:
    for path in sorted(FOLDER.rglob("*.py")):
        if "migrations" not in path.parts:
            yield path, ast.parse(path.read_text())


def called_in(tree: ast.AST) -> Iterator[str]:
    """Yield the names of functions and methods that are called."""
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Attribute(attr=name)) | ast.Call(func=ast.Name(id=name)):
                yield name


def members_of(body: ast.ClassDef) -> Iterator[str]:
    """Yield the names that a class defines."""
    for node in body.body:
        match node:
            case ast.FunctionDef(name=name):
                yield name
            case ast.AnnAssign(target=ast.Name(id=name)):
                yield name
            case ast.Assign(targets=targets):
                yield from (name.id for target in targets for name in ast.walk(target) if isinstance(name, ast.Name))


def test_modules__of_experiments__execute_no_text() -> None:
    found = {
        (path.relative_to(FOLDER).as_posix(), name)
        for path, tree in modules()
        for name in EXECUTING.intersection(called_in(tree))
    }
    silenced = {path.relative_to(FOLDER).as_posix() for path, _ in modules() if re.search(r"S608", path.read_text())}
    assert (found, silenced) == (set(), set())


def test_classes__that_write_sql__are_in_one_module() -> None:
    found = {
        (path.relative_to(FOLDER).as_posix(), body.name)
        for path, tree in modules()
        for body in ast.walk(tree)
        if isinstance(body, ast.ClassDef) and any(map(COMPILING.fullmatch, members_of(body)))
    }
    assert {module for module, _ in found} == {EXPRESSIONS.relative_to(FOLDER).as_posix()}


def test_templates__of_expressions__hold_no_data() -> None:
    """A template is a constant. What is filled in is compiled, or a name or number of this module."""
    tree = ast.parse(EXPRESSIONS.read_text())
    compiled = {"letters", "moment", "condition", "value", "path"}
    own = {"step", "reached", "_pattern(step)", "letter", "LETTERS", "_STEPS_PASSED", "type(self).__name__"}
    filled = {ast.unparse(part.value) for part in ast.walk(tree) if isinstance(part, ast.FormattedValue)}
    assert filled <= compiled | own
    assigned = [node for node in ast.walk(tree) if isinstance(node, ast.Assign)]
    templates = [node for node in assigned if {"postgresql", "sqlite"}.intersection(map(ast.unparse, node.targets))]
    assert len(templates) > 20
    assert [ast.unparse(node) for node in templates if not isinstance(node.value, ast.Constant)] == []

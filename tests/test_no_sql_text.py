"""The apps read and write by querysets: text of SQL is in `config.database`, or a template without data."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
APPS = ("config", "events", "experiments", "flags")
EXECUTING = frozenset({"cursor", "execute", "executemany", "raw", "extra", "RawSQL"})
"""What is called to execute a text."""
EXECUTED_ELSEWHERE = {
    # Statements about the server itself, without data.
    ("config/management/database_examinations.py", "cursor"),
    ("config/management/database_examinations.py", "execute"),
    # The method with which Django runs a command.
    ("config/management/operator.py", "execute"),
    # Databases of their own, in files that are deleted on close.
    ("events/imports/event_files.py", "execute"),
    ("events/imports/inspection.py", "execute"),
    ("events/imports/inspection.py", "executemany"),
}
COMPILING = re.compile(r"as_(sql|sqlite|postgresql)|(template|function|postgresql|sqlite)")
"""What an expression writes itself with."""
EXPRESSIONS = {
    "config/change_log/descriptions.py",
    "events/expressions.py",
    "experiments/results/expressions.py",
}
FILLED_IN = {
    "events/expressions.py": {"', '.join(['%%s::jsonb'] * len(values))"},
    # compiled, or names and numbers of this module
    "experiments/results/expressions.py": {
        *("letters", "moment", "condition", "value", "path"),
        *("step", "reached", "_pattern(step)", "letter", "LETTERS", "_STEPS_PASSED", "type(self).__name__"),
    },
}
"""By module, the expressions that templates of SQL are made with."""


def modules() -> Iterator[tuple[str, ast.Module]]:
    for path in (path for app in APPS for path in sorted((ROOT / app).rglob("*.py"))):
        name = path.relative_to(ROOT).as_posix()
        if "migrations" not in path.parts and not name.startswith(("config/database/", "flags/clients/")):
            yield name, ast.parse(path.read_text())


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


def is_expression(body: ast.ClassDef) -> bool:
    """Return whether a class writes SQL. Templates of pages and filters are names of files."""
    members = {name for name in members_of(body) if COMPILING.fullmatch(name)}
    return bool(members - {"template"}) or ("template" in members and "%(" in ast.unparse(body))


def test_modules__outside_of_the_database__execute_no_text() -> None:
    found = {(module, name) for module, tree in modules() for name in EXECUTING.intersection(called_in(tree))}
    silenced = {module for module, _ in modules() if re.search(r"S608|S611|B608", (ROOT / module).read_text())}
    assert (found, silenced) == (EXECUTED_ELSEWHERE, set())


def test_classes__that_write_sql__are_in_the_modules_of_expressions() -> None:
    found = {
        module
        for module, tree in modules()
        for body in ast.walk(tree)
        if isinstance(body, ast.ClassDef) and is_expression(body)
    }
    assert found == EXPRESSIONS


def test_templates__of_expressions__hold_no_data() -> None:
    """A template is a constant. What is filled in is compiled, or a name or number of this module."""
    for module, allowed in FILLED_IN.items():
        tree = ast.parse((ROOT / module).read_text())
        filled = {ast.unparse(part.value) for part in ast.walk(tree) if isinstance(part, ast.FormattedValue)}
        assert filled <= allowed, module
    tree = ast.parse((ROOT / "experiments/results/expressions.py").read_text())
    assigned = [node for node in ast.walk(tree) if isinstance(node, ast.Assign)]
    templates = [node for node in assigned if {"postgresql", "sqlite"}.intersection(map(ast.unparse, node.targets))]
    assert len(templates) > 20
    assert [ast.unparse(node) for node in templates if not isinstance(node.value, ast.Constant)] == []

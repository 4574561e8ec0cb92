"""Run the benchmarks, all of them or those named: `python -m tests.benchmarks evaluation`."""

from __future__ import annotations

import importlib
import pkgutil
import sys
from pathlib import Path

from tests import benchmarks
from tests.benchmarks.load import MissingTool

PREFIX = "bench_"

sys.path.append(str(Path(__file__).resolve().parents[2] / "flags" / "clients" / "python"))


def main() -> int:
    names = [
        module.name.removeprefix(PREFIX)
        for module in pkgutil.iter_modules(benchmarks.__path__)
        if module.name.startswith(PREFIX)
    ]
    if unknown := set(sys.argv[1:]) - set(names):
        sys.exit(f"There is no benchmark {', '.join(sorted(unknown))}; there are: {', '.join(names)}.")
    try:
        chosen = [importlib.import_module(f"tests.benchmarks.{PREFIX}{name}") for name in sys.argv[1:] or names]
        held = [benchmark.run() for benchmark in chosen]
    except MissingTool as error:
        sys.exit(str(error))
    return 0 if all(held) else 1


if __name__ == "__main__":
    sys.exit(main())

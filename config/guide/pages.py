"""The pages of the guide, their order, and their URLs."""

from __future__ import annotations

import posixpath
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from django.conf import settings

FOLDER = settings.BASE_DIR / "templates" / "guide"


class Chapter(NamedTuple):
    """A group of pages in the sidebar. `paths` are relative to the folder of the guide."""

    title: str
    summary: str
    paths: tuple[str, ...]


CHAPTERS: tuple[Chapter, ...] = (
    Chapter("Start", "What Halyard is, and how to run it.", ("index.md",)),
    Chapter(
        "Tour of the API",
        "Every operation, with requests that you can paste and the answers they give.",
        (
            "tour/index.md",
            "tour/flags.md",
            "tour/targeting.md",
            "tour/ofrep.md",
            "tour/metrics.md",
            "tour/experiments.md",
            "tour/events.md",
            "tour/keys.md",
        ),
    ),
    Chapter(
        "Flags",
        "How a flag is decided, and how flags are kept in order.",
        (
            "evaluation.md",
            "bucketing.md",
            "local-evaluation.md",
            "flags-in-the-admin.md",
            "usage.md",
            "flags-as-code.md",
        ),
    ),
    Chapter(
        "OpenFeature",
        "Clients for applications, in any language.",
        (
            "openfeature/index.md",
            "openfeature/web.md",
            "openfeature/react.md",
            "openfeature/next.md",
            "openfeature/node.md",
            "openfeature/python.md",
            "openfeature/mobile.md",
            "openfeature/telemetry.md",
        ),
    ),
    Chapter(
        "Experiments",
        "From the plan to the decision, and what the numbers mean.",
        (
            "planning.md",
            "checklist.md",
            "audiences.md",
            "exposures.md",
            "phases.md",
            "metrics.md",
            "statistics.md",
            "results.md",
            "deciding.md",
            "calibration.md",
        ),
    ),
    Chapter(
        "Events",
        "How to look at users and events, how to import events, and how to delete them.",
        ("received-events.md", "one-user.md", "imports.md", "erasure.md"),
    ),
    Chapter(
        "Operating",
        "Halyard in production.",
        (
            "operating.md",
            "growth.md",
            "production.md",
            "kubernetes.md",
            "citus.md",
            "upgrading.md",
            "backup.md",
            "monitoring.md",
            "maintenance.md",
            "security.md",
            "troubleshooting.md",
            "settings.md",
            "commands.md",
            "environments-and-keys.md",
            "webhooks.md",
            "kill-switches.md",
        ),
    ),
    Chapter("Reference", "Filters, headers and error codes.", ("requests.md", "errors.md")),
    Chapter(
        "Decisions",
        "Why it is built as it is, and what that costs.",
        (
            "decisions/index.md",
            "decisions/change-log.md",
            "decisions/snapshots.md",
            "decisions/last-known-state.md",
            "decisions/one-evaluator.md",
            "decisions/bucketing.md",
            "decisions/openfeature.md",
            "decisions/event-streams.md",
            "decisions/databases.md",
            "decisions/no-redis.md",
            "decisions/granian.md",
            "decisions/fast-lane.md",
            "decisions/threads.md",
            "decisions/group-commit.md",
            "decisions/batches.md",
            "decisions/partitions.md",
            "decisions/commit-order.md",
            "decisions/user-values.md",
            "decisions/always-valid.md",
            "decisions/experiment-rules.md",
            "decisions/phases.md",
        ),
    ),
    Chapter("Code", "How the code works.", ("code-tour.md",)),
)


@dataclass(frozen=True)
class Page:
    """One Markdown file. `path` is relative to the folder of the guide."""

    path: str
    chapter: str

    @property
    def address(self) -> str:
        """Return the URL after `/guide/`: the path without `.md`, or the folder of an index."""
        stem = self.path.removesuffix(".md")
        return "" if stem == "index" else stem.removesuffix("/index")

    @cached_property
    def source(self) -> str:
        return str((FOLDER / self.path).read_text(encoding="utf-8"))

    @cached_property
    def title(self) -> str:
        return self.source.partition("\n")[0].removeprefix("# ").strip()

    def resolve(self, target: str) -> str:
        """Resolve a relative link to a path in the folder of the guide. A leading `..` leaves the folder."""
        return posixpath.normpath(posixpath.join(posixpath.dirname(self.path), target))


PAGES: tuple[Page, ...] = tuple(Page(path, chapter.title) for chapter in CHAPTERS for path in chapter.paths)
BY_ADDRESS = {page.address: page for page in PAGES}
BY_PATH = {page.path: page for page in PAGES}


def neighbours(page: Page) -> tuple[Page | None, Page | None]:
    """Return the pages before and after this one in reading order."""
    index = PAGES.index(page)
    return (PAGES[index - 1] if index else None), (PAGES[index + 1] if index + 1 < len(PAGES) else None)

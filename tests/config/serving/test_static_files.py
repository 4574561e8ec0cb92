"""Compressed copies of static files, at addresses that change with the content."""

from __future__ import annotations

import gzip
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.http import HttpRequest, HttpResponse
from django.test import RequestFactory

from config.serving import static_files
from config.serving.static_files import StaticFilesMiddleware, VersionedStorage, provide_copies

CSS = "pages/page.css"
CONTENT = "body { color: black }\n" * 100


@pytest.fixture(autouse=True)
def source(settings: Any, tmp_path: Path) -> Iterator[Path]:
    """The file that is served, while no other files are there."""
    file = tmp_path / "source" / CSS
    file.parent.mkdir(parents=True)
    file.write_text(CONTENT)
    file.with_suffix(".png").write_bytes(os.urandom(1000))
    file.with_suffix(".css.map").write_text("{}")
    settings.STATICFILES_DIRS = [tmp_path / "source"]
    settings.STATICFILES_FINDERS = ["django.contrib.staticfiles.finders.FileSystemFinder"]
    settings.RUNTIME_DIR, settings.STATIC_ROOT = tmp_path, tmp_path / "static"
    settings.WHITENOISE_AUTOREFRESH = False
    provide_copies.cache_clear()
    yield file
    provide_copies.cache_clear()


def change(file: Path, content: str) -> None:
    """Change a file, and start anew."""
    file.write_text(content)
    provide_copies.cache_clear()


def ask(path: str, **headers: str) -> Any:
    """Return what a server that starts now answers."""

    def find_nothing(_: HttpRequest) -> HttpResponse:
        return HttpResponse(status=404)

    return StaticFilesMiddleware(find_nothing)(RequestFactory().get(path, headers=headers))


def content_of(answer: Any) -> bytes:
    with answer.file_to_stream:
        return b"".join(answer.streaming_content)


def test_file__at_the_address_that_pages_name__is_compressed_and_kept_for_ever() -> None:
    answer = ask(VersionedStorage().url(CSS), accept_encoding="gzip, br")
    assert answer.headers["Content-Encoding"] == "gzip"
    assert answer.headers["Vary"] == "Accept-Encoding"
    assert "immutable" in answer.headers["Cache-Control"]
    compressed = content_of(answer)
    assert len(compressed) < len(CONTENT) / 10
    assert gzip.decompress(compressed).decode() == CONTENT


def test_file__for_a_client_that_cannot_decompress__is_as_it_was() -> None:
    answer = ask(VersionedStorage().url(CSS), accept_encoding="identity")
    assert "Content-Encoding" not in answer.headers
    assert content_of(answer).decode() == CONTENT


def test_file__at_its_address_without_a_version__is_asked_for_again_soon() -> None:
    answer = ask(f"/static/{CSS}")
    assert content_of(answer).decode() == CONTENT
    assert answer.headers["Cache-Control"] == "max-age=60, public"


def test_file__that_changed__has_another_address_and_the_old_one_answers_what_it_did(source: Path) -> None:
    before = VersionedStorage().url(CSS)
    change(source, "body { color: white }")
    after = VersionedStorage().url(CSS)
    assert after != before
    assert content_of(ask(after)) == b"body { color: white }"
    assert content_of(ask(before)).decode() == CONTENT


def test_file__of_a_version_that_is_not_here__is_that_of_this_version_for_a_short_time() -> None:
    answer = ask(f"/static/{'0' * 16}/{CSS}")
    assert content_of(answer).decode() == CONTENT
    assert answer.headers["Cache-Control"] == "max-age=60, public"


@pytest.mark.parametrize("path", [f"/static/{'0' * 16}/pages/other.css", "/static/pages/../page.css", "/static/", "/"])
def test_path__of_no_file__is_left_to_others(path: str) -> None:
    assert ask(path).status_code == 404


def test_copies__of_what_is_compressed_already_or_never_loaded__are_not_made() -> None:
    names = {file.name for file in Path(static_files.settings.STATIC_ROOT).rglob("*.*")}
    assert not names
    provide_copies()
    names = {file.name for file in Path(static_files.settings.STATIC_ROOT).rglob("*.*")}
    assert names == {"page.css", "page.css.gz", "page.png"}


def test_versions__of_many_upgrades__are_kept_while_a_page_may_name_them(source: Path, tmp_path: Path) -> None:
    versions = []
    for number in range(5):
        change(source, f"{number}")
        versions.append(provide_copies())
        for age, version in enumerate(reversed(versions)):
            if (folder := tmp_path / "static" / version).is_dir():
                os.utime(folder, (1000 - age, 1000 - age))
    assert {folder.name for folder in (tmp_path / "static").iterdir()} == set(versions[2:])


def test_copies__that_another_process_has_made_meanwhile__are_taken(tmp_path: Path) -> None:
    complete = tmp_path / "static" / provide_copies()
    made = complete.stat().st_ino
    static_files._copy(complete)
    assert complete.stat().st_ino == made
    assert [folder.name for folder in tmp_path.iterdir() if folder.name.startswith("static-")] == []


def test_folder__that_cannot_be_written__leaves_files_at_their_own_addresses(
    settings: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "full").write_text("")
    settings.STATIC_ROOT = tmp_path / "full"
    assert VersionedStorage().url(CSS) == f"/static/{CSS}"
    assert "cannot be copied" in caplog.text


def test_files__that_may_change_at_any_time__keep_their_own_addresses(settings: Any) -> None:
    settings.WHITENOISE_AUTOREFRESH = True
    assert VersionedStorage().url(CSS) == f"/static/{CSS}"
    assert content_of(ask(f"/static/{CSS}")).decode() == CONTENT

"""The guide over HTTP: public, cached by readers, from this host alone."""

from __future__ import annotations

import re

import pytest
from django.contrib.staticfiles import finders
from django.test import Client

from config.guide.pages import PAGES
from config.guide.rendering import page_url


def test_pages__each__is_shown_to_everyone_with_files_that_are_shipped_and_links_that_answer(
    subtests: pytest.Subtests, client: Client
) -> None:
    linked: set[str] = set()
    for page in PAGES:
        with subtests.test(page=page.path):
            response = client.get(page_url(page))
            assert response.status_code == 200
            html = response.content.decode()
            check_files(html)
            assert "style=" not in html
            assert "<style" not in html
            assert html.count("<h1") == 1
            assert f'href="{page_url(page)}" aria-current="page"' in html
            ids = re.findall(r'\bid="([^"]*)"', html)
            assert len(ids) == len(set(ids))
            linked |= set(re.findall(r'<a\b[^>]*href="(/guide[^"#]*)', html))
    assert linked == {page_url(page) for page in PAGES}


def check_files(html: str) -> None:
    tags = re.findall(r"<(?:script|link|img)\b[^>]*>", html)
    loaded = [re.search(r'(?:src|href)="([^"]*)"', tag)[1] for tag in tags]
    assert loaded
    for address in loaded:
        assert address.startswith("/static/"), address
        assert finders.find(address.removeprefix("/static/")), address


def test_page__in_the_middle__links_to_the_one_before_and_the_one_after(client: Client) -> None:
    html = client.get("/guide/tour/targeting").content.decode()
    assert '<a rel="prev" href="/guide/tour/flags">' in html
    assert '<a rel="next" href="/guide/tour/ofrep">' in html


@pytest.mark.parametrize("address", ["/guide", "/guide/", "/guide/errors", "/guide/search.json"])
def test_page__sent_something__answers_that_it_takes_no_post(address: str) -> None:
    response = Client(enforce_csrf_checks=True).post(address, {"a": "b"})
    assert (response.status_code, response.headers["Allow"]) == (405, "GET, HEAD")


def test_page__asked_for_again__is_not_sent_again(client: Client) -> None:
    first = client.get("/guide/errors")
    assert first.headers["Cache-Control"] == "public, no-cache"
    again = client.get("/guide/errors", headers={"If-None-Match": first.headers["ETag"]})
    assert (again.status_code, again.content, again.headers["ETag"]) == (304, b"", first.headers["ETag"])


def test_page__of_a_reader_who_takes_gzip__is_compressed(client: Client) -> None:
    response = client.get("/guide/errors", headers={"Accept-Encoding": "gzip"})
    assert response.headers["Content-Encoding"] == "gzip"
    again = client.get("/guide/errors", headers={"Accept-Encoding": "gzip", "If-None-Match": response.headers["ETag"]})
    assert again.status_code == 304


def test_page__policy__lets_nothing_in_from_elsewhere_and_no_script_of_the_page(client: Client) -> None:
    policy = client.get("/guide/").headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'")
    assert "unsafe" not in policy
    assert "http" not in policy


@pytest.mark.parametrize(
    "address", ["/guide/no-such-page", "/guide/tour/none", "/guide/../settings.py", "/guide/base.html"]
)
def test_page__that_does_not_exist__is_answered_with_a_page_that_helps(client: Client, address: str) -> None:
    response = client.get(address)
    assert response.status_code == 404
    html = response.content.decode()
    assert "Page not found" in html
    assert '<a href="/guide/errors">' in html


def test_page__by_another_address__is_redirected(subtests: pytest.Subtests, client: Client) -> None:
    for address, url in [
        ("/guide", "/guide/"),
        ("/guide/errors/", "/guide/errors"),
        ("/guide/errors.md", "/guide/errors"),
        ("/guide/tour/index.md", "/guide/tour"),
        ("/guide/index.md", "/guide/"),
    ]:
        with subtests.test(address=address, url=url):
            response = client.get(address)
            assert (response.status_code, response.headers["Location"]) == (301, url)


def test_page__other_methods__are_refused(client: Client) -> None:
    assert client.post("/guide/").status_code == 405


def test_search_index__asked_for__is_json_with_an_etag(client: Client) -> None:
    response = client.get("/guide/search.json")
    assert response.headers["Content-Type"] == "application/json"
    assert response.headers["ETag"]
    assert len(response.json()) > len(PAGES)


def test_guide__from_the_api_documentation__is_linked(client: Client) -> None:
    assert '<a href="/guide/">' in client.get("/docs").content.decode()


def test_guide__from_the_sidebar_of_the_admin__is_linked(admin_client: Client) -> None:
    assert 'href="/guide/"' in admin_client.get("/admin/").content.decode()

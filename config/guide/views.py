"""The views of the guide. Its pages are public and the same for everyone."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from hashlib import sha256
from typing import Any, NamedTuple

import orjson
from django.http import HttpRequest, HttpResponse, HttpResponsePermanentRedirect
from django.http.response import HttpResponseBase
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.cache import get_conditional_response
from django.utils.safestring import mark_safe
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.gzip import gzip_page
from django.views.decorators.http import require_safe

from config.guide.pages import BY_ADDRESS, BY_PATH, CHAPTERS, PAGES, Page, neighbours
from config.guide.rendering import page_url, render, search_index

PAGE_HEADERS = {
    "Cache-Control": "public, no-cache",  # revalidate: 304 costs almost nothing, and an upgrade shows at once
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; font-src 'self'; "
        "connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    ),
}


def read_only(view: Callable[..., HttpResponseBase]) -> Callable[..., HttpResponseBase]:
    """Answer other methods with 405. Otherwise, a POST would get 403 for a missing CSRF token, which is misleading."""
    return csrf_exempt(require_safe(view))


class _Document(NamedTuple):
    body: bytes
    etag: str
    content_type: str


@read_only
@gzip_page
def show_page(request: HttpRequest, address: str = "") -> HttpResponseBase:
    page = BY_ADDRESS.get(address)
    if page is not None:
        return _answer(request, _document(page))
    page = BY_PATH.get(address) or BY_ADDRESS.get(address.rstrip("/"))  # the name of its file, or a trailing slash
    if page is not None:
        return HttpResponsePermanentRedirect(page_url(page))
    return HttpResponse(_missing(), status=404, headers=PAGE_HEADERS)


@read_only
def redirect_to_guide(request: HttpRequest) -> HttpResponseBase:
    return HttpResponsePermanentRedirect(reverse("guide"))


@read_only
@gzip_page
def show_search_index(request: HttpRequest) -> HttpResponseBase:
    return _answer(request, _index())


def _answer(request: HttpRequest, document: _Document) -> HttpResponseBase:
    response = HttpResponse(document.body, document.content_type, headers={**PAGE_HEADERS, "ETag": document.etag})
    return get_conditional_response(request, etag=document.etag, response=response) or response


@cache
def _document(page: Page) -> _Document:
    rendered = render(page)
    heading, title_end, body = rendered.html.partition("</h1>")
    previous, following = neighbours(page)
    context = {
        "page": page,
        "contents": [section for section in rendered.sections if section.level in (2, 3)],
        "heading": mark_safe(heading + title_end),  # noqa: S308 (made from files of this repository)
        "body": mark_safe(body),  # noqa: S308
        "previous": previous and _link(previous),
        "following": following and _link(following),
        "chapters": list_chapters(page),
    }
    return _with_etag(render_to_string("guide/page.html", context).encode(), "text/html; charset=utf-8")


@cache
def _index() -> _Document:
    return _with_etag(orjson.dumps(search_index()), "application/json")


@cache
def _missing() -> str:
    return render_to_string("guide/missing.html", {"chapters": list_chapters(None)})


def _with_etag(body: bytes, content_type: str) -> _Document:
    return _Document(body, f'"{sha256(body).hexdigest()[:32]}"', content_type)


def list_chapters(current: Page | None) -> list[dict[str, Any]]:
    return [
        {
            "title": chapter.title,
            "summary": chapter.summary,
            "pages": [
                {**_link(page), "is_current": page == current} for page in PAGES if page.chapter == chapter.title
            ],
        }
        for chapter in CHAPTERS
    ]


def _link(page: Page) -> dict[str, str]:
    return {"title": page.title, "url": page_url(page)}

"""The page that says how to install the clients, and the packages themselves. They are public."""

from __future__ import annotations

import re

from django.http import Http404, HttpRequest, HttpResponse
from django.template.loader import render_to_string

from config.guide.views import PAGE_HEADERS, list_chapters, read_only
from flags.clients import building

_TYPES = {".whl": "application/zip", ".tgz": "application/gzip", ".mjs": "text/javascript; charset=utf-8"}
_name = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,199}(?P<suffix>\.whl|\.tgz|\.mjs)", re.ASCII)
_UNCHANGING = {
    "Cache-Control": "public, max-age=31536000, immutable",
    "Access-Control-Allow-Origin": "*",  # pages of other origins import the module
}


@read_only
def show_clients(request: HttpRequest) -> HttpResponse:
    names = building.current_names(building.FOLDER)
    packages = {
        kind: [request.build_absolute_uri(name) for name in names if name.endswith(suffix)]
        for kind, suffix in (("wheels", ".whl"), ("tarballs", ".tgz"), ("modules", ".mjs"))
    }
    context = {"chapters": list_chapters(None), "packages": packages, "is_built": bool(names)}
    return HttpResponse(render_to_string("clients.html", context, request), headers=PAGE_HEADERS)


@read_only
def download(request: HttpRequest, name: str) -> HttpResponse:
    matched = _name.fullmatch(name)
    try:
        content = (building.FOLDER / name).read_bytes() if matched else None
    except OSError:
        content = None
    if matched is None or content is None:
        raise Http404("No package has this name; /clients/ lists them.")
    return HttpResponse(content, content_type=_TYPES[matched["suffix"]], headers=_UNCHANGING)

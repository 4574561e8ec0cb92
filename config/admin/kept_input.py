"""Input of forms that could not be accepted: the session or the token had expired, or the environment was another one.

The page to sign in, or to switch back, has the input in a signed hidden field. After that, the input fills in its form
once, and the person checks it and sends it. Passwords are never kept.
"""

from __future__ import annotations

import copy
from typing import Any, cast
from urllib.parse import urlencode, urlsplit

from django.contrib import admin, messages
from django.contrib.auth import REDIRECT_FIELD_NAME
from django.contrib.auth.signals import user_logged_in
from django.core import signing
from django.db import Error
from django.dispatch import receiver
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, QueryDict, UnreadablePostError
from django.template.response import TemplateResponse
from django.urls import reverse

from config.admin.browser_middleware import ENVIRONMENT_KEY, ForBrowsers
from config.admin.failure_pages import OUTDATED_FORM, answer, answer_unavailable

ANSWERS = ("agreed", "typed_name", "declined")
"""The fields that answer a question. They are not kept, so that the question is asked again."""

_FIELD = "kept"
_KEY = "kept_input"
_NEVER_KEPT = ("csrfmiddlewaretoken", _FIELD, *ANSWERS)
_SECONDS = 24 * 3600
_MAX_CHARACTERS = 4 * 1024**2  # a body may have 5 MiB
_STATUS = 403
_SESSION_EXPIRED = "Your session expired"
SWITCHED = "Another environment was chosen in the meantime"
_FORM_EXPIRED = "The form expired"

Kept = dict[str, Any]
"""The address of the page with the form, as `page`, and its `input`: a list of values for each name."""


def sent_input(request: HttpRequest) -> QueryDict:
    """Return the input that was sent, or on the page of a form, the input that was kept for it."""
    if request.method == "POST":
        return request.POST
    kept = _kept_for(request)
    filled = QueryDict(mutable=True)
    for name, values in kept["input"].items() if kept else ():
        filled.setlist(name, values)
    return filled


def filled_in(form: type[Any], request: HttpRequest) -> type[Any]:
    """Return the class of a form that shows the kept input, if there is any."""
    kept = None if request.method == "POST" else sent_input(request)
    if not kept:
        return form

    def __init__(self: Any, data: Any = None, *args: Any, **options: Any) -> None:
        form.__init__(self, kept if data is None else data, *args, **options)

    return type(form.__name__, (form,), {"__init__": __init__})


def page_of_form(request: HttpRequest) -> str:
    """Return the address of the page that shows the form of this request. Usually, it is the same address."""
    match = request.resolver_match
    page = getattr(match.func, "form_page", None) if match else None
    if match is None or page is None:
        return request.get_full_path()
    query = request.META["QUERY_STRING"]
    return reverse(page, args=[match.kwargs["object_id"]]) + (f"?{query}" if query else "")


class KeptInputMiddleware(ForBrowsers):
    """Asks people to sign in who sent a form without a session, and drops kept input once its page was shown.

    A page that fails shows nothing, so its input stays.
    """

    def process_response(self, request: HttpRequest, response: HttpResponse) -> HttpResponse:
        if not is_of_person(request):
            return response
        if request.method == "POST":
            return _sign_in_page(request, collect(request)) if _refuses_session(request, response) else response
        if response.status_code < 500 and _kept_for(request):
            del request.session[_KEY]
        return response


def show_csrf_failure(request: HttpRequest, reason: str = "") -> HttpResponse:
    """Answer a form without a valid token: keep its input if the form is ours, or say that it is out of date."""
    try:
        return _recover(request) or answer(request, OUTDATED_FORM)
    except UnreadablePostError:  # the client has left
        return answer(request, OUTDATED_FORM)
    except Error as error:
        unavailable = answer_unavailable(request, error)
        if unavailable is None:
            raise
        return unavailable


def _recover(request: HttpRequest) -> HttpResponse | None:
    """Return a redirect to the page of the form, or the page to sign in. None means that neither can help."""
    if not is_of_person(request):
        return None
    is_login = request.path_info == reverse("admin:login")
    kept = carried_in(request) if is_login else collect(request)
    has_input = bool(kept and kept["input"])
    if not admin.site.has_permission(request):
        if has_input and _may_be_from_here(request):
            return _sign_in_page(request, kept)
        return None if is_login else _sign_in_page(request, None)
    if not kept or not has_input or not _is_from_here(request):
        return None
    give_back(request, kept, _FORM_EXPIRED)
    return HttpResponseRedirect(kept["page"])


def is_of_person(request: HttpRequest) -> bool:
    """Return whether this is a request of a person for a page of the admin, and not of a script, which tries again."""
    is_of_script = request.headers.get("Sec-Fetch-Mode", "navigate") != "navigate"
    return request.path_info.startswith(reverse("admin:index")) and not is_of_script


def _is_from_here(request: HttpRequest) -> bool:
    """Return whether a page of this service sent the form. Browsers send `Origin` with every form."""
    schemes = ("https",) if request.is_secure() else ("https", "http")  # a proxy may speak HTTPS for this service
    return request.headers.get("Origin") in [f"{scheme}://{request.get_host()}" for scheme in schemes]


def _may_be_from_here(request: HttpRequest) -> bool:
    """Return whether the form may be from this service. Clients other than browsers need not send `Origin`."""
    return "Origin" not in request.headers or _is_from_here(request)


def _refuses_session(request: HttpRequest, response: HttpResponse) -> bool:
    login = reverse("admin:login")
    return (
        response.status_code == 302
        and request.path_info != login
        and urlsplit(response.headers["Location"]).path == login
    )


def _sign_in_page(request: HttpRequest, kept: Kept | None) -> HttpResponse:
    """Return the page to sign in, which carries the input."""
    following = kept["page"] if kept else reverse("admin:index")
    asking = copy.copy(request)
    asking.method, asking.POST = "GET", QueryDict()
    context = {
        "app_path": f"{reverse('admin:login')}?{urlencode({REDIRECT_FIELD_NAME: following})}",
        REDIRECT_FIELD_NAME: following,
        **carry(kept),
    }
    page = cast(TemplateResponse, admin.site.login(asking, extra_context=context))
    page.status_code = _STATUS
    return page.render()


@receiver(user_logged_in)
def _move_to_session(request: HttpRequest, **_: Any) -> None:
    """Move the input from the page to sign in to the session."""
    kept = carried_in(request) if request is not None else None
    if kept:
        give_back(request, kept, _SESSION_EXPIRED)


def carry(kept: Kept | None) -> dict[str, Any]:
    """Return the context of a template that carries the input, or says that it is too long."""
    text = signing.dumps(kept, salt=_KEY, compress=True) if kept else ""
    is_too_long = len(text) > _MAX_CHARACTERS
    return {_FIELD: "" if is_too_long else text, "is_too_long": is_too_long}


def carried_in(request: HttpRequest) -> Kept | None:
    """Return the input that the previous page has carried."""
    text = request.POST.get(_FIELD, "")
    try:
        return cast(Kept, signing.loads(text, salt=_KEY, max_age=_SECONDS)) if text else None
    except signing.BadSignature:
        return None


def give_back(request: HttpRequest, kept: Kept, why: str) -> None:
    """Store the input in the session for its page, and switch to the environment of the form."""
    request.session[_KEY] = kept
    if environment := environment_of(kept["input"]):
        request.session[ENVIRONMENT_KEY] = environment
    messages.warning(request, f"{why}, so nothing was saved. Your input is back: check it and save again.")


def environment_of(submitted: dict[str, list[str]]) -> str:
    """Return the key of the environment in which a form or a list was opened, if it says so."""
    first = {name: values[0] for name, values in submitted.items() if values}
    return first.get("opened_in") or first.get("action", "").partition(":")[0]


def collect(request: HttpRequest) -> Kept:
    """Return the input of a form, or the input that the page has carried for another form."""
    if carried := carried_in(request):
        return carried
    submitted = {name: values for name, values in request.POST.lists() if _may_be_kept(name)}
    return {"page": page_of_form(request), "input": submitted}


def _may_be_kept(name: str) -> bool:
    return name not in _NEVER_KEPT and "password" not in name.lower()


def _kept_for(request: HttpRequest) -> Kept | None:
    """Return the input that was kept for this page."""
    kept: Kept | None = request.session.get(_KEY)
    return kept if kept and kept["page"] == request.get_full_path() else None

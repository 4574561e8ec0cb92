"""What the admin pages of all apps share: forms, confirmations, messages about writes, history and lists."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar, cast

from django.contrib import messages
from django.contrib.admin import AdminSite
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.contrib.admin.utils import unquote
from django.core.exceptions import PermissionDenied
from django.core.paginator import Paginator
from django.db.models import Model
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.text import capfirst
from unfold.admin import ModelAdmin
from unfold.decorators import action
from unfold.enums import ActionVariant
from unfold.views import ChangeList

from config.admin.columns import Method
from config.admin.conflicts import ComparesVersions
from config.admin.current_environment import check_environment, current_environment
from config.admin.filters import IgnoresUnknownParameters
from config.admin.kept_input import filled_in
from config.admin.reasons import lacks_reason, reason_of, reason_setting
from config.change_log.descriptions import DescribedChange, describe_change
from config.change_log.reversion import plan_undo, reversibles, write_of
from config.change_log.writing import Actor
from config.errors import DomainError, ErrorCode
from config.models import Change, ChangeQuerySet, Environment, ReasonSetting, Source
from config.monitoring.request_ids import request_id_of

_CHANGES_A_PAGE = 50
_LONG_CHANGES_A_PAGE = 10


class NamedListPage(ChangeList):
    """A list with the same title as its entry in the menu."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.title = capfirst(str(self.opts.verbose_name_plural))


class ListPage(NamedListPage):
    """A list with its filters above it, instead of behind a button."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.has_filters = False


class DomainListPage(ListPage):
    """A list whose rows are prepared by hooks of a DomainAdmin."""

    def get_queryset(self, request: HttpRequest, exclude_parameters: Any = None) -> Any:
        return self.model_admin.for_list(super().get_queryset(request, exclude_parameters))

    def get_results(self, request: HttpRequest) -> None:
        super().get_results(request)
        self.result_list: Any = self.model_admin.for_page(request, self.result_list)
        self.next_moment = self.model_admin.next_moment(request, self.result_list, timezone.now())


@dataclass(frozen=True, slots=True)
class Confirmation:
    """A confirmation page: its title, the consequences, and the label of its button.

    Without a button, the page says why the action is not possible. With `is_everywhere`, the action concerns all
    environments; otherwise only `environment`, by default the current one. `subjects` is what the person agrees to (see
    `config.admin.questions`), and `name_to_type` is what they must type.
    """

    title: str
    consequences: Sequence[str]
    button: str
    is_dangerous: bool = True
    is_everywhere: bool = False
    subjects: Sequence[str] = ()
    name_to_type: str = ""
    environment: Environment | None = None


class KeepsInput:
    """A mixin for pages whose forms show the input that was kept while somebody signed in."""

    def get_form(self, request: HttpRequest, *arguments: Any, **options: Any) -> Any:
        form = super().get_form(request, *arguments, **options)  # type: ignore[misc]  # of the model admin
        return filled_in(form, request)


class AnnouncesWrites:
    """A mixin for pages whose writes are in the change log.

    Messages about a write link to its change, and offer to undo it or say why that is not possible.
    """

    kind: ClassVar[str]
    admin_site: AdminSite

    def succeed(self, request: HttpRequest, text: str, kinds: Collection[str] = ()) -> None:
        """Show a message about a write of these kinds of objects, by default the kind of the page."""
        tag, why_not = self._after_write(request, kinds)
        messages.success(request, f"{text} {why_not}".rstrip(), extra_tags=tag)

    def message_user(
        self,
        request: HttpRequest,
        message: Any,
        level: int | str = messages.INFO,
        extra_tags: str = "",
        fail_silently: bool = False,
    ) -> None:
        if level == messages.SUCCESS and not extra_tags:
            extra_tags, why_not = self._after_write(request)
            message = format_html("{} {}", message, why_not) if why_not else message
        cast(Any, super()).message_user(request, message, level, extra_tags, fail_silently)

    def _after_write(self, request: HttpRequest, kinds: Collection[str] = ()) -> tuple[str, str]:
        """Return the tag of a message about a write, and why the write cannot be undone, or an empty string.

        The tag is `undo-12` for a write that this person can undo, `change-12` for another one, and empty without a
        write. The write is read from the database only for kinds with steps.
        """
        written = writes_of(request)
        if not written:
            return "", ""
        revision, kinds = written[-1], kinds or (self.kind,)
        written_kinds = [reversibles.get(kind) for kind in kinds]
        if not any(reversible and reversible.has_steps for reversible in written_kinds):
            return f"{'undo' if all(written_kinds) else 'change'}-{revision}", ""
        changes = write_of(revision)
        plan, log = plan_undo(changes), cast(Any, self.admin_site.get_model_admin(Change))
        if plan.undo is None:
            return f"change-{revision}", plan.why_not
        return f"{'undo' if log.may_undo_all(request, changes) else 'change'}-{revision}", ""


class DomainAdmin(KeepsInput, ComparesVersions, AnnouncesWrites, IgnoresUnknownParameters, ModelAdmin):
    """Pages of a model that is written only by functions of the domain, whose errors appear at the fields.

    `kind` is the name of such objects in the change log. `is_common`: all environments share the objects.
    `is_environmental`: a write applies to the current environment only. `has_long_documents`: a document may have
    megabytes, so lists of changes do not read it.
    """

    kind: ClassVar[str]
    is_common: ClassVar[bool] = True
    is_environmental: ClassVar[bool] = False
    has_long_documents: ClassVar[bool] = False
    actions = None
    change_form_before_template = "admin/includes/hidden_fields.html"
    show_full_result_count = False
    list_per_page = 50
    list_max_show_all = 0  # no list is sent as a whole, however `?all` asks for it
    ordering_field = None  # unfold looks for it in every row, and takes long if it is missing
    compressed_fields = True
    warn_unsaved_form = True

    # what a subclass defines

    def write(self, request: HttpRequest, obj: Any, values: dict[str, Any], *, is_new: bool) -> Model:
        """Create or change an object with the values of its form, and return it as stored."""
        raise PermissionDenied

    def remove(self, request: HttpRequest, obj: Any, reason: str) -> None:
        raise PermissionDenied

    def loaded(self, request: HttpRequest, obj: Any) -> dict[str, Any]:
        """Return the initial values of the form, in addition to the columns of the model."""
        return {"opened_in": current_environment(request).key} if self.is_environmental else {}

    def deletion(self, request: HttpRequest, obj: Any) -> Confirmation:
        return Confirmation(f"Delete {obj}?", ("Its history stays in the change log.",), "Delete")

    def form_context(self, request: HttpRequest, object_id: str | None) -> dict[str, Any]:
        """Return more context for templates of the form. They call the functions in it only where they show them."""
        return {}

    def for_list(self, queryset: Any) -> Any:
        """Return the rows of a list, without columns that the list does not show."""
        return queryset

    def for_page(self, request: HttpRequest, queryset: Any) -> Any:
        """Return the rows of one page of a list, with more data that only these rows need."""
        return queryset

    def next_moment(self, request: HttpRequest, rows: Any, now: datetime) -> datetime | None:
        """Return when these rows will next look different although nobody changes them, or None."""
        return None

    # Django's hooks, which call them

    def changeform_view(
        self,
        request: HttpRequest,
        object_id: str | None = None,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> Any:
        own = {"show_save_and_add_another": False, **self.form_context(request, object_id)}
        extra_context = {**own, **(extra_context or {})}
        try:
            return super().changeform_view(request, object_id, form_url, extra_context)
        except DomainError as refusal:
            # Nothing was written. Show the form again with its input, which is still in the request, and the error.
            request.refusal = refusal  # type: ignore[attr-defined]  # ours
            return super().changeform_view(request, object_id, form_url, extra_context)

    def get_form(self, request: HttpRequest, obj: Any = None, change: bool = False, **options: Any) -> Any:
        form = super().get_form(request, obj, change, **options)
        form.refusal, form.conflict = getattr(request, "refusal", None), getattr(request, "conflict", None)
        form.version_field = self.version_field
        form.loaded = self.loaded(request, obj)
        if "reason" in form.base_fields:
            reason = deepcopy(form.base_fields["reason"])  # the forms of all requests share it
            reason.required = reason_setting(self, request) is ReasonSetting.REQUIRED
            form.base_fields["reason"] = reason
        return form

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        if self.is_environmental:
            check_environment(request, form.cleaned_data["opened_in"])
        try:
            written = self.write(request, obj, form.cleaned_data, is_new=not change)
        except DomainError as refusal:
            if refusal.code is not ErrorCode.PRECONDITION_FAILED or not change:
                raise
            request.conflict = self.find_conflict(request, obj, form.cleaned_data)  # type: ignore[attr-defined]  # ours
            what = f"The {self.opts.verbose_name} has changed since you opened this page."
            raise DomainError(refusal.code, f"{what} Nothing was saved: choose one of the versions above.") from refusal
        vars(obj).update(vars(written))

    def delete_model(self, request: HttpRequest, obj: Any) -> None:
        self.remove(request, obj, reason_of(request))

    def delete_queryset(self, request: HttpRequest, queryset: Iterable[Any]) -> None:
        for obj in queryset:
            self.delete_model(request, obj)

    def delete_view(
        self, request: HttpRequest, object_id: str, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        obj = self.find(request, object_id)
        if obj is None:
            return self.missing(request, object_id)
        if not self.has_delete_permission(request, obj):
            raise PermissionDenied
        done = f"{capfirst(str(self.opts.verbose_name))} {obj} is deleted."
        return self.confirm(request, obj, self.deletion(request, obj), lambda: self.delete_model(request, obj), done)

    def confirm(
        self,
        request: HttpRequest,
        obj: Any,
        confirmation: Confirmation,
        act: Callable[[], object],
        done: str,
        *,
        template: str = "admin/confirm.html",
        **more: Any,
    ) -> HttpResponse:
        """Show a confirmation page, and call `act` when it is sent. A DomainError of `act` becomes a message.

        `more` is context for a `template` that extends the usual one.
        """
        address = self.address_of("change", obj.pk)
        lacks = request.method == "POST" and lacks_reason(request, reason_setting(self, request))
        if request.method == "POST" and not lacks:
            try:
                if self.is_environmental:
                    check_environment(request, request.POST.get("opened_in"))
                act()
            except DomainError as refusal:
                messages.error(request, refusal.message)
                return HttpResponseRedirect(address)
            self.succeed(request, done)
            exists = self.get_queryset(request).filter(pk=obj.pk).exists()
            return HttpResponseRedirect(address if exists else self.address_of("changelist"))
        shown = {"confirmation": confirmation, "original": obj, "back": address, "title": confirmation.title}
        return self.page(request, template, {**shown, "reason": reason_of(request), "lacks_reason": lacks, **more})

    # history

    def history_view(
        self, request: HttpRequest, object_id: str, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        obj = self.find(request, object_id)
        if obj is None:
            return self.missing(request, object_id)
        if not self.has_view_permission(request, obj):
            raise PermissionDenied
        size = _LONG_CHANGES_A_PAGE if self.has_long_documents else _CHANGES_A_PAGE
        page = Paginator(self.history_of(obj), size).get_page(request.GET.get("p"))
        changes = [self.describe(request, obj, change) for change in page]
        context = {"page": page, "changes": changes, "original": obj, "title": f"History of {obj}"}
        if changes and page.number == 1:
            log: Any = self.admin_site.get_model_admin(Change)
            context["undo"] = log.find_undo(request, changes[0].change)
        return self.page(request, "admin/change_history.html", context)

    def history_of(self, obj: Any) -> ChangeQuerySet:
        return Change.objects.of(self.kind, obj.pk)

    def describe(self, request: HttpRequest, obj: Any, change: Change) -> DescribedChange:
        return describe_change(change)

    # Django's own log is not kept, because the change log has every write of the admin, the API and the commands.

    def log_addition(self, request: HttpRequest, obj: Any, message: Any) -> Any:
        return None

    def log_change(self, request: HttpRequest, obj: Any, message: Any) -> Any:
        return None

    def log_deletions(self, request: HttpRequest, queryset: Any) -> Any:
        return None

    def lookup_allowed(self, lookup: str, value: Any, request: HttpRequest | None = None) -> bool:
        """Allow only the list's own filters in the query string, not lookups of any column."""
        return any(lookup in list_filter.names() for list_filter in self.list_filter)

    def response_change(self, request: HttpRequest, obj: Any) -> HttpResponse:
        """Say so if nothing was written, for example because `5 %` became `5%`."""
        if writes_of(request):
            answer: HttpResponse = super().response_change(request, obj)
            return answer
        messages.info(request, "Nothing has changed.")
        if "_continue" in request.POST:
            return HttpResponseRedirect(request.get_full_path())
        return cast(HttpResponse, self.response_post_save_change(request, obj))

    def action_checkbox(self, obj: Any) -> SafeString:
        """Return a checkbox labelled with the object. The theme's own checkbox takes 800 bytes."""
        return format_html(
            '<input type="checkbox" name="{}" value="{}" class="action-select hy-box" aria-label="Select {}">',
            ACTION_CHECKBOX_NAME,
            obj.pk,
            obj,
        )

    # Its header is the theme's box, which selects every row.
    action_checkbox.short_description = ModelAdmin.action_checkbox.short_description  # type: ignore[attr-defined]

    def may_undo(self, request: HttpRequest, change: Change) -> bool:
        """Return whether the person has the permission to do the opposite of a change."""
        if change.before is None:
            may = self.has_delete_permission
        else:
            may = self.has_add_permission if change.after is None else self.has_change_permission
        return bool(may(request))

    # for the pages that Django does not have

    def get_changelist(self, request: HttpRequest, **options: Any) -> type[ChangeList]:
        return DomainListPage

    def find(self, request: HttpRequest, object_id: str) -> Any:
        return self.get_object(request, unquote(object_id))

    def missing(self, request: HttpRequest, object_id: str) -> HttpResponse:
        return cast(HttpResponse, self._get_obj_does_not_exist_redirect(request, self.opts, object_id))

    def route(
        self, address: str, view: Callable[..., HttpResponse], page: str, *, form_on: str | None = None
    ) -> URLPattern:
        """Return the URL pattern of a page for staff, whose address `address_of` returns by its name.

        `form_on` is for an address that only receives a form: the name of the page that shows the form.
        """
        names = f"{self.opts.app_label}_{self.opts.model_name}_"
        guarded: Any = self.admin_site.admin_view(view)
        if form_on:
            guarded.form_page = f"admin:{names}{form_on}"
        pattern: URLPattern = path(address, guarded, name=names + page)
        return pattern

    def address_of(self, page: str, *arguments: object) -> str:
        return reverse(f"admin:{self.opts.app_label}_{self.opts.model_name}_{page}", args=arguments)

    def page(self, request: HttpRequest, template: str, context: dict[str, Any]) -> HttpResponse:
        request.current_app = self.admin_site.name  # as the admin's own views do
        shared = {"opts": self.opts, "model_admin": self, "reason_setting": reason_setting(self, request)}
        return TemplateResponse(request, template, {**self.admin_site.each_context(request), **shared, **context})


def button(
    description: str, *, permission: str, icon: str, variant: ActionVariant = ActionVariant.DEFAULT
) -> Callable[[Method], Method]:
    """Make a view a button above the form of an object."""
    decorate: Callable[[Method], Method] = action(
        description=description, permissions=[permission], icon=icon, variant=variant
    )
    return decorate


class ReadOnly:
    """A mixin for pages that nobody may edit."""

    def has_add_permission(self, request: HttpRequest, *_: Any) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, *_: Any) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, *_: Any) -> bool:
        return False


def writer(request: HttpRequest) -> dict[str, Any]:
    """Return the actor and the time as arguments of a write. A request has one actor, which collects its writes."""
    actor: Actor | None = getattr(request, "actor", None)
    if actor is None:
        name = f"user {request.user.get_username()}"
        actor = Actor(name, Source.ADMIN, request=request_id_of(request.META), writes=[])
        request.actor = actor  # type: ignore[attr-defined]  # ours
    return {"actor": actor, "now": timezone.now()}


def writer_here(request: HttpRequest) -> dict[str, Any]:
    """Return `writer` with the current environment."""
    return {**writer(request), "environment": current_environment(request)}


def writes_of(request: HttpRequest) -> Sequence[int]:
    """Return the first revision of each write of this request."""
    return getattr(getattr(request, "actor", None), "writes", None) or ()

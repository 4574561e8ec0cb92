"""The pages of users and groups. They log changes, and nobody can grant rights that they lack."""

from __future__ import annotations

from collections.abc import Iterable
from http import HTTPStatus
from typing import Any, ClassVar, cast

from django import forms
from django.contrib import admin
from django.contrib.auth.admin import GroupAdmin as DjangoGroupAdmin
from django.contrib.auth.admin import UserAdmin as DjangoUserAdmin
from django.contrib.auth.models import Group, Permission, User
from django.contrib.contenttypes.models import ContentType
from django.db import transaction
from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse, QueryDict
from django.utils import timezone
from django.utils.safestring import SafeString
from unfold.admin import ModelAdmin
from unfold.forms import AdminPasswordChangeForm, UserChangeForm, UserCreationForm

from config.access.accounts import (
    GROUP,
    USER,
    account_as_json,
    describe_permission,
    exceeding,
    log_account,
    log_password,
    may_change,
    names_of,
    rights_of,
    seen_by_staff,
    version_of,
)
from config.admin.columns import column, time_cell
from config.admin.conflicts import Conflict
from config.admin.filters import IgnoresUnknownParameters
from config.admin.site import AnnouncesWrites, KeepsInput, NamedListPage, writer
from config.change_log.descriptions import compare_documents
from config.change_log.reversion import Irreversible, reversibles
from config.database.locks import lock_change_log
from config.documents import Document
from config.models import Change

_MAX_NAMED = 5
_HAS_CHANGED = "This {} has changed since you opened this page. Nothing was saved: choose one of the versions above."
_LOOKUPS_OF_FILTERS = ("exact", "id__exact", "isnull")
"""The lookups of Django's filters by a field, in the query string."""
_SHOWN_AS = {
    "username": "username", "name": "name", "email": "email", "first_name": "firstName", "last_name": "lastName",
    "is_active": "active", "is_staff": "staff", "is_superuser": "superuser",
}  # fmt: skip
"""What `seen_by_staff` calls the fields of the forms that have one value."""


class ComparesAccounts:
    """A mixin for forms of accounts, which refuse to overwrite a version that was saved since they were opened."""

    conflict: Conflict | None = None

    def clean(self) -> Any:
        form = cast("forms.ModelForm[Any]", self)
        values = super().clean() or form.cleaned_data  # type: ignore[misc]  # of the form
        if form.instance.pk is None:
            return values
        lock_change_log()  # so that nobody else saves the account between this look and the end of the request
        stored = type(form.instance)._default_manager.get(pk=form.instance.pk)
        saved = seen_by_staff(stored)
        if values.get("version") != version_of(saved):
            kind = USER if isinstance(stored, User) else GROUP
            comparisons = compare_documents(saved, {**saved, **_typed(values)}, kind, timezone.now())
            self.conflict = Conflict(Change.objects.of(kind, stored.pk).first(), comparisons, version_of(saved))
            data = cast(QueryDict, form.data).copy()
            data["version"] = self.conflict.version
            form.data = data
            form.add_error(None, _HAS_CHANGED.format(stored._meta.verbose_name))
        return values

    def _post_clean(self) -> None:
        """Do not change the object of a refused form, because the page shows its name."""
        if self.conflict is None:
            super()._post_clean()  # type: ignore[misc]  # of the form


def _typed(values: dict[str, Any]) -> Document:
    """Return what a form would save, in the shape of `seen_by_staff`. Fields with errors are left out."""
    typed: Document = {_SHOWN_AS[field]: value for field, value in values.items() if field in _SHOWN_AS}
    for field in ("permissions", "user_permissions"):
        if field in values:
            typed["permissions"] = sorted(names_of(values[field]))
    if "groups" in values:
        typed["groups"] = sorted(group.name for group in values["groups"])
    return typed


class GrantsWithinOwnRights:
    """A mixin for forms of accounts, which grant only rights that the granter has."""

    granter: ClassVar[User]

    def clean(self) -> Any:
        form = cast("forms.ModelForm[Any]", self)
        values = super().clean() or form.cleaned_data  # type: ignore[misc]  # of the form
        for field in ("permissions", "user_permissions"):
            self._check(form, field, names_of(values.get(field) or []))
        self._check(form, "groups", set().union(*map(rights_of, values.get("groups") or [])))
        if values.get("is_superuser") and not self.granter.is_superuser:
            form.add_error("is_superuser", "Only a superuser can make somebody one.")
        return values

    def _check(self, form: forms.ModelForm[Any], field: str, rights: set[str]) -> None:
        lacking = exceeding(self.granter, rights)
        if lacking:
            more = f" and {len(lacking) - _MAX_NAMED} more" if len(lacking) > _MAX_NAMED else ""
            named = ", ".join(lacking[:_MAX_NAMED])
            form.add_error(field, f"You cannot grant what you lack yourself: {named}{more}.")


class AccountPages(AnnouncesWrites, KeepsInput, IgnoresUnknownParameters):
    kind: ClassVar[str]
    change_form_before_template = "admin/includes/hidden_fields.html"

    class Media:
        js = ("config/choosers.js",)

    def get_changelist(self, request: HttpRequest, **options: Any) -> type[NamedListPage]:
        return NamedListPage

    def lookup_allowed(self, lookup: str, value: Any, request: HttpRequest | None = None) -> bool:
        """Allow only the list's own filters in the query string, where Django would allow most columns."""
        name, _, kind = lookup.partition("__")
        return name in self.list_filter and kind in _LOOKUPS_OF_FILTERS  # type: ignore[attr-defined]  # of the model admin

    def get_form(self, request: HttpRequest, obj: Any = None, change: bool = False, **options: Any) -> Any:
        form = super().get_form(request, obj, change=change, **options)
        version = version_of(seen_by_staff(obj)) if obj is not None else ""
        field = forms.CharField(widget=forms.HiddenInput, required=False, initial=version)
        parts = {"granter": request.user, "version": field}
        made: Any = type(form.__name__, (ComparesAccounts, GrantsWithinOwnRights, form), parts)
        for name in ("permissions", "user_permissions"):
            if permissions := made.base_fields.get(name):
                permissions.queryset = _offered(getattr(obj, name).all() if obj is not None else ())
                permissions.label_from_instance = describe_permission
        return made

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return super().has_change_permission(request, obj) and (obj is None or may_change(_user(request), obj))  # type: ignore[misc]  # of the model admin

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return super().has_delete_permission(request, obj) and (obj is None or may_change(_user(request), obj))  # type: ignore[misc]  # of the model admin

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        stored = type(obj)._default_manager.filter(pk=obj.pk).first() if change else None
        request.before = account_as_json(stored) if stored is not None else None  # type: ignore[attr-defined]  # ours
        super().save_model(request, obj, form, change)  # type: ignore[misc]  # of the model admin

    def save_related(self, request: HttpRequest, form: Any, formsets: Any, change: bool) -> None:
        super().save_related(request, form, formsets, change)  # type: ignore[misc]  # of the model admin
        before = request.before  # type: ignore[attr-defined]  # see above
        log_account(form.instance, before, account_as_json(form.instance), **writer(request))

    @transaction.atomic
    def delete_model(self, request: HttpRequest, obj: Any) -> None:
        before = account_as_json(obj)
        super().delete_model(request, obj)  # type: ignore[misc]  # of the model admin
        log_account(obj, before, None, **writer(request))

    @transaction.atomic
    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        for account in queryset:
            self.delete_model(request, account)

    def get_deleted_objects(self, objs: Any, request: HttpRequest) -> Any:
        """Add the accounts that may not be deleted to what Django reports as missing permissions."""
        to_delete, count, lacking, protected = super().get_deleted_objects(objs, request)  # type: ignore[misc]  # of the model admin
        kept = {str(account) for account in objs if not may_change(_user(request), account)}
        return to_delete, count, lacking | kept, protected


def _offered(granted: Iterable[Permission]) -> QuerySet[Permission]:
    """Return the permissions that pages of the admin check, and those that the account has already."""
    types = ContentType.objects.get_for_models(*admin.site._registry).values()
    offered = Q(content_type__in=types) | Q(pk__in=[permission.pk for permission in granted])
    return Permission.objects.filter(offered).select_related("content_type")


reversibles[USER] = Irreversible("An account has no undo, because it says who may do what; set it back by hand.")
reversibles[GROUP] = Irreversible("A group has no undo, because it says who may do what; set it back by hand.")
admin.site.unregister(User)
admin.site.unregister(Group)


@admin.register(User)
class UserAdmin(AccountPages, DjangoUserAdmin, ModelAdmin):  # type: ignore[type-arg]
    kind = USER
    form = UserChangeForm
    add_form = UserCreationForm
    change_password_form = AdminPasswordChangeForm
    list_display = ("username", "email", "is_staff", "is_superuser", "is_active", "shown_login")
    readonly_fields = ("shown_login", "shown_joining")
    # Nobody edits when somebody signed in last.
    fieldsets = (*(DjangoUserAdmin.fieldsets or ())[:-1], ("Dates", {"fields": readonly_fields}))

    @column("Last login", ordering="last_login", empty_value="never")
    def shown_login(self, user: User) -> SafeString | None:
        return time_cell(user.last_login)

    @column("Joined")
    def shown_joining(self, user: User) -> SafeString | None:
        return time_cell(user.date_joined)

    @transaction.atomic
    def user_change_password(self, request: HttpRequest, id: str, form_url: str = "") -> HttpResponse:
        response: HttpResponse = super().user_change_password(request, id, form_url)
        user = self.get_object(request, id)
        if request.method == "POST" and response.status_code == HTTPStatus.FOUND and user is not None:
            log_password(user, **writer(request))
        return response


@admin.register(Group)
class GroupAdmin(AccountPages, DjangoGroupAdmin, ModelAdmin):
    kind = GROUP
    fields = ("name", "permissions")


@transaction.atomic
def change_own_password(request: HttpRequest) -> HttpResponse:
    """The theme's page on which people change their own password."""
    response: HttpResponse = admin.site.password_change(request)
    if request.method == "POST" and response.status_code == HTTPStatus.FOUND:
        log_password(_user(request), **writer(request))
    return response


def _user(request: HttpRequest) -> User:
    return cast(User, request.user)

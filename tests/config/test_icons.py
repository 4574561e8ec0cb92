"""Icons of templates are hidden from screen readers, unless they say something."""

from __future__ import annotations

import pytest
from django.template.loader import get_template

from config.icons import hide_icons

ICON = 'class="material-symbols-outlined'


def test_hide_icons__hides_each_once() -> None:
    for source, hidden in [
        (f'<span {ICON}">add</span>', f'<span aria-hidden="true" {ICON}">add</span>'),
        (
            f'<div x-on:click="go" {ICON} md-18">add</div>',
            f'<div aria-hidden="true" x-on:click="go" {ICON} md-18">add</div>',
        ),
        (f'<b><span class="a"><span {ICON}">', f'<b><span class="a"><span aria-hidden="true" {ICON}">'),
        (f'<span class="block{{% if a %}} b{{% endif %}} {ICON[7:]}">', None),
        (f'<span {ICON}" aria-hidden="true">add</span>', None),
        (f'<span aria-hidden="true" {ICON}">add</span>', None),
        (f'<span {ICON}" role="img" aria-label="yes">check</span>', None),
        ('<span class="other">add</span>', None),
        ('<link href="material-symbols-outlined.css">', None),
    ]:
        if "{%" in source:
            hidden = source.replace("<span", '<span aria-hidden="true"')
        assert hide_icons(source) == (hidden or source), (source, hidden)
        assert hide_icons(hide_icons(source)) == hide_icons(source), (source, hidden)


@pytest.mark.parametrize("name", ["unfold/helpers/search.html", "admin/change_list.html", "guide/page.html"])
def test_templates__of_the_theme_and_our_own__are_found(name: str) -> None:
    assert get_template(name).origin.name.endswith(name)

"""The admin site: the settings pages, and what the admin pages of all apps share."""

from config.admin import (  # noqa: F401 (registers the pages, and their words)
    accounts,
    change_words,
    settings_pages,
    webhook_pages,
)

"""The admin site: the settings pages, and what the admin pages of all apps share."""

from config.admin import accounts, settings_pages, webhook_pages  # noqa: F401 (registers the pages)

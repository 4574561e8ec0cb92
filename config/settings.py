"""Settings. Those that operators may change come from the environment or `.env`, and the guide
lists them all.
"""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from urllib.parse import quote

from django.core.exceptions import ImproperlyConfigured
from django.templatetags.static import static

from config.env import Env

BASE_DIR = Path(__file__).resolve().parent.parent

env = Env()
env.read_file("ENV_FILE", default=str(BASE_DIR / ".env"))

# --- settings for operators ------------------------------------------------------------------------------------------

DEBUG = env.bool("DEBUG", default=False)
SECRET_KEY = env.str("SECRET_KEY", default="")
SECRET_KEY_FALLBACKS = env.list("SECRET_KEY_FALLBACKS", default=[])  # former ones, which still verify
ALLOWED_HOSTS = env.list("ALLOWED_HOSTS", default=["localhost", "127.0.0.1", "[::1]"] if DEBUG else [])
SCRIPT_NAME = env.path_prefix("SCRIPT_NAME", default="")  # such as /flags, below which the service is reached
RUNTIME_DIR = env.folder("RUNTIME_DIR", default=str(BASE_DIR / "var"))
ANONYMOUS_SCOPE = env.str("ANONYMOUS_SCOPE", default="none")
CORS_ALLOWED_ORIGINS = env.list("CORS_ALLOWED_ORIGINS", default=[])
CSRF_TRUSTED_ORIGINS = env.list("CSRF_TRUSTED_ORIGINS", default=[])
STREAM_URL = env.str("STREAM_URL", default="")
THREADS = env.int("THREADS", default=8)  # per worker, for what may wait for the database
BODY_TIMEOUT = env.int("BODY_TIMEOUT", default=10)  # seconds in which the body of a request must arrive
DATABASE_TIMEOUT = env.int("DATABASE_TIMEOUT", default=10)  # seconds for a statement, or for a thread to be free
DATABASE_LONG_TIMEOUT = env.int("DATABASE_LONG_TIMEOUT", default=600)  # for statements of results and commands
DATABASE_CONNECT_TIMEOUT = env.int("DATABASE_CONNECT_TIMEOUT", default=5)
DATABASE_IDLE_TIMEOUT = env.int("DATABASE_IDLE_TIMEOUT", default=60)  # in a transaction that does nothing
RATE_LIMIT_KEY = env.int("RATE_LIMIT_KEY", default=20_000)  # requests a second of one key; 0 is no limit
RATE_LIMIT_ADDRESS = env.int("RATE_LIMIT_ADDRESS", default=200)  # and of one address with a client key, or none
METRICS_TOKEN = env.str("METRICS_TOKEN", default="")  # lets other hosts read /metrics
FAST_LANE = env.bool("FAST_LANE", default=True)  # answers what clients ask most without Django's own handling
EVENT_RETENTION_DAYS = env.int("EVENT_RETENTION_DAYS", default=None)  # `maintain` purges older events
CHANGE_RETENTION_DAYS = env.int("CHANGE_RETENTION_DAYS", default=None)  # `maintain` deletes older superseded entries
RECENT_USERS = env.bool("RECENT_USERS", default=True)  # keep a sample of them, to preview what a change does
WEBHOOK_ALLOW_HTTP = env.bool("WEBHOOK_ALLOW_HTTP", default=DEBUG)  # otherwise, webhooks need https://
WEBHOOK_PRIVATE_NETWORKS = env.networks("WEBHOOK_PRIVATE_NETWORKS", default=[])  # that webhooks may call
TIME_ZONE = env.time_zone("TIME_ZONE", default="UTC")
LOG_LEVEL = env.log_level("LOG_LEVEL", default="INFO")
LOG_FORMAT = env.str("LOG_FORMAT", default="text")
ACCESS_LOG = env.bool("ACCESS_LOG", default=False)
TRUSTED_PROXIES = env.list("TRUSTED_PROXIES", default=["127.0.0.0/8", "::1"])  # their forwarding headers count

AXES_FAILURE_LIMIT = env.int("LOGIN_FAILURE_LIMIT", default=10)  # wrong passwords for an account from one address
AXES_COOLOFF_TIME = env.minutes("LOGIN_LOCKOUT_MINUTES", default=timedelta(minutes=15))
SECURE_SSL_REDIRECT = env.bool("SECURE_SSL_REDIRECT", default=not DEBUG)
SECURE_HSTS_SECONDS = env.int("SECURE_HSTS_SECONDS", default=0 if DEBUG else 365 * 24 * 3600)
SECURE_HSTS_INCLUDE_SUBDOMAINS = env.bool("SECURE_HSTS_INCLUDE_SUBDOMAINS", default=False)
SECURE_HSTS_PRELOAD = env.bool("SECURE_HSTS_PRELOAD", default=False)
# Both bind other hosts of the domain, so operators decide.
SILENCED_SYSTEM_CHECKS = ["security.W005", "security.W021"]
SESSION_COOKIE_SECURE = env.bool("SESSION_COOKIE_SECURE", default=not DEBUG)
CSRF_COOKIE_SECURE = env.bool("CSRF_COOKIE_SECURE", default=not DEBUG)
if proxy_ssl_header := env.header("SECURE_PROXY_SSL_HEADER", default=""):
    # The name of a header, such as X-Forwarded-Proto, that a trusted proxy sets to "https".
    SECURE_PROXY_SSL_HEADER = ("HTTP_" + proxy_ssl_header.upper().replace("-", "_"), "https")

sqlite_url = f"sqlite:///{quote(str(RUNTIME_DIR / 'halyard.sqlite3'))}"
DATABASES = {"default": env.db_url("DATABASE_URL", default=sqlite_url)}
if replica := env.replica_url("REPLICA_URL"):  # a standby, for lists and exports of events
    if DATABASES["default"]["ENGINE"] != replica["ENGINE"]:
        raise ImproperlyConfigured("REPLICA_URL needs a primary: set DATABASE_URL to the address of its PostgreSQL.")
    DATABASES["replica"] = replica
    DATABASE_ROUTERS = ["config.database.replica.Router"]
    # Reads can do without it, so they wait for as short a time as the driver allows.
    replica["OPTIONS"] = {"connect_timeout": min(2, DATABASE_CONNECT_TIMEOUT), **replica.get("OPTIONS", {})}
for database in DATABASES.values():
    database |= {
        "ATOMIC_REQUESTS": False,
        "CONN_MAX_AGE": env.int("CONN_MAX_AGE", default=600),
        "CONN_HEALTH_CHECKS": True,
    }
    if database["ENGINE"] == "django.db.backends.postgresql":
        database["ENGINE"] = "config.database.postgresql"
        database["OPTIONS"] = {
            "connect_timeout": DATABASE_CONNECT_TIMEOUT,
            # A server that vanished without a word is noticed while something is sent to it, and while it is waited
            # for.
            "tcp_user_timeout": DATABASE_TIMEOUT * 1000,
            "keepalives_idle": 5,
            "keepalives_interval": 2,
            "keepalives_count": 3,
            **database.get("OPTIONS", {}),
        }
if DATABASES["default"]["ENGINE"] == "django.db.backends.sqlite3":
    DATABASES["default"]["ENGINE"] = "config.database.sqlite"
    DATABASES["default"]["OPTIONS"] = {
        # With WAL, reads continue during a write. With FULL, an acknowledged event survives a power
        # cut.
        "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL;",
        # In other modes, a transaction that reads before it writes fails with "locked" instead of
        # waiting.
        "transaction_mode": "IMMEDIATE",
        "timeout": DATABASE_TIMEOUT,
    }

# --- fixed settings --------------------------------------------------------------------------------------------------

INSTALLED_APPS = [
    "unfold",
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "whitenoise.runserver_nostatic",  # `runserver`, too, serves static files by the middleware below
    "django.contrib.staticfiles",
    "axes",
    "corsheaders",
    "rest_framework",
    "django_filters",
    "drf_spectacular",
    "drf_spectacular_sidecar",
    "config",
    "events",
    "flags",
    "experiments",
]

MIDDLEWARE = [
    "config.api.edge.EdgeMiddleware",
    "config.api.edge.CrossOriginMiddleware",
    "django.middleware.security.SecurityMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django.middleware.common.CommonMiddleware",
    "config.api.edge.ApiMiddleware",  # answers the requests of the APIs: what follows is for pages
    "config.serving.content_policy.ContentPolicyMiddleware",
    "config.serving.static_files.StaticFilesMiddleware",
    "config.admin.browser_middleware.CompressionMiddleware",
    "config.admin.browser_middleware.SessionMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "config.admin.browser_middleware.MessageMiddleware",
    "config.admin.kept_input.KeptInputMiddleware",
    "config.admin.current_environment.OpenedElsewhereMiddleware",
    "config.admin.browser_middleware.FailureMiddleware",
    "config.admin.questions.QuestionMiddleware",
    "axes.middleware.AxesMiddleware",
]

ROOT_URLCONF = "config.urls"
WSGI_APPLICATION = "config.serving.wsgi.application"
CHECK_LOCK_ORDER = False  # True in tests; see config.database.locks
STREAM_APPLICATION = "flags.ofrep.stream_application.application"  # ASGI, in a separate process
APPEND_SLASH = False
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
USE_I18N = False
DATA_UPLOAD_MAX_MEMORY_SIZE = 5 * 1024**2  # bytes; also the limit for bodies of the API
USE_TZ = True

FORM_RENDERER = "config.icons.FormRenderer"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "OPTIONS": {
            "loaders": [("django.template.loaders.cached.Loader", ["config.icons.Loader"])],
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
            "builtins": ["config.admin.template_filters"],
        },
    }
]

AUTHENTICATION_BACKENDS = ["config.admin.log_ins.LockOutBackend", "django.contrib.auth.backends.ModelBackend"]
AXES_CLIENT_IP_CALLABLE = "config.admin.log_ins.address_of_request"
AXES_USERNAME_CALLABLE = "config.admin.log_ins.name_of_attempt"
AXES_LOCKOUT_CALLABLE = "config.admin.log_ins.show_lock_out"
AXES_LOCKOUT_PARAMETERS = [["username", "ip_address"]]  # so that nobody can lock others out
AXES_RESET_ON_SUCCESS = True
AXES_DISABLE_ACCESS_LOG = True  # config.admin.log_ins logs successes
AXES_ENABLE_ADMIN = False
PASSWORD_HASHERS = [
    "config.admin.passwords.OneAtATimePasswordHasher",
    # For passwords that were imported with their hashes. Each is hashed anew when its user signs in.
    "django.contrib.auth.hashers.PBKDF2SHA1PasswordHasher",
    "django.contrib.auth.hashers.Argon2PasswordHasher",
    "django.contrib.auth.hashers.BCryptSHA256PasswordHasher",
    "django.contrib.auth.hashers.ScryptPasswordHasher",
]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}"}
    for name in (
        "UserAttributeSimilarityValidator",
        "MinimumLengthValidator",
        "CommonPasswordValidator",
        "NumericPasswordValidator",
    )
]

FORCE_SCRIPT_NAME = SCRIPT_NAME or None
STATIC_URL = f"{SCRIPT_NAME}/static/"
STATICFILES_DIRS = [("guide/images", BASE_DIR / "templates" / "guide" / "images")]
# A server copies the static files from the packages that contain them when it starts, so an upgrade needs no
# `collectstatic`.
STATIC_ROOT = RUNTIME_DIR / "static"
STORAGES = {"staticfiles": {"BACKEND": "config.serving.static_files.VersionedStorage"}}
WHITENOISE_USE_FINDERS = True
WHITENOISE_AUTOREFRESH = False  # True in tests; like code, files are read when a server starts
WHITENOISE_IMMUTABLE_FILE_TEST = f"^{STATIC_URL}[0-9a-f]{{16}}/"

LOGIN_REDIRECT_URL = "admin:index"
SESSION_ENGINE = "config.admin.browser_middleware"
SESSION_COOKIE_NAME = "halyard_session"
CSRF_COOKIE_NAME = "halyard_csrf"
SESSION_COOKIE_PATH = CSRF_COOKIE_PATH = SCRIPT_NAME or "/"
CSRF_FAILURE_VIEW = "config.admin.kept_input.show_csrf_failure"
SECURE_CONTENT_TYPE_NOSNIFF = True
X_FRAME_OPTIONS = "DENY"

CORS_URLS_REGEX = (
    r"^(/v1/(evaluate|flags/[^/]+/evaluate|experiments/[^/]+/variant|variants|events|events/batch)"
    r"|/ofrep/v1/evaluate/flags(/.+)?)$"
)
CORS_ALLOW_METHODS = ["POST"]
CORS_ALLOW_HEADERS = [
    "authorization", "content-encoding", "content-type", "idempotency-key",
    "if-none-match", "x-api-key", "x-request-id",
]  # fmt: skip
CORS_EXPOSE_HEADERS = [
    "ETag", "Idempotent-Replayed", "RateLimit", "Retry-After", "X-Request-Id", "X-Revision", "X-Stale",
]  # fmt: skip
CORS_PREFLIGHT_MAX_AGE = 3600

REST_FRAMEWORK = {
    # The class for keys comes first, because the first one decides between 401 and 403 for missing
    # credentials.
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "config.api.authentication.KeyAuthentication",
        "config.api.authentication.AdminSessionAuthentication",
        "config.api.authentication.AnonymousAuthentication",
    ],
    "DEFAULT_PERMISSION_CLASSES": ["config.api.permissions.HasAccess"],
    "DEFAULT_PARSER_CLASSES": ["config.api.bodies.JSONParser"],
    "DEFAULT_RENDERER_CLASSES": ["config.api.renderers.EnvelopeRenderer"],
    "DEFAULT_CONTENT_NEGOTIATION_CLASS": "config.api.renderers.AlwaysJSON",
    "DEFAULT_SCHEMA_CLASS": "config.api.schema.EnvelopeSchema",
    "DEFAULT_METADATA_CLASS": None,
    "DEFAULT_THROTTLE_CLASSES": [],
    "EXCEPTION_HANDLER": "config.api.failures.answer_exception",
    "UNAUTHENTICATED_USER": "django.contrib.auth.models.AnonymousUser",
}

SPECTACULAR_SETTINGS = {
    "TITLE": "Halyard",
    "VERSION": "1",
    "OAS_VERSION": "3.1.0",
    "SERVE_INCLUDE_SCHEMA": False,
    "ENABLE_DJANGO_DEPLOY_CHECK": False,  # `make check` runs it; a server can start without writing its schema
    "SERVE_PERMISSIONS": ["rest_framework.permissions.AllowAny"],
    "SERVE_AUTHENTICATION": [],
    "SWAGGER_UI_DIST": "SIDECAR",
    "SWAGGER_UI_FAVICON_HREF": "SIDECAR",
    "SWAGGER_UI_SETTINGS": {
        "deepLinking": False,
        "validatorUrl": None,
    },  # the validator would send the schema to another host
    "REDOC_DIST": "SIDECAR",
    "COMPONENT_SPLIT_REQUEST": True,
    "COMPONENT_SPLIT_PATCH": False,
    "POSTPROCESSING_HOOKS": ["config.api.schema.complete_document"],
    "ENUM_GENERATE_CHOICE_DESCRIPTION": False,
    "SCHEMA_PATH_PREFIX": r"/v1",
    "SERVERS": [{"url": SCRIPT_NAME}] if SCRIPT_NAME else [],
}

UNFOLD = {
    "SITE_TITLE": "Halyard",
    "SITE_HEADER": "Halyard",
    "SITE_SUBHEADER": "Flags and experiments",
    "SITE_ICON": lambda _: static("config/halyard.svg"),
    "SITE_FAVICONS": [{"rel": "icon", "type": "image/svg+xml", "href": lambda _: static("config/halyard.svg")}],
    "SITE_URL": None,
    "SHOW_VIEW_ON_SITE": False,
    "STYLES": [lambda _: static("config/fonts.css"), lambda _: static("config/admin.css")],
    "SCRIPTS": [lambda _: static("config/local_times.js")],
    "GLOBAL_CALLBACK": "config.admin.current_environment.page_context",
    "DASHBOARD_CALLBACK": "experiments.admin.dashboard.add_overview",
    "BORDER_RADIUS": "8px",
    "COLORS": {
        "primary": {
            "50": "oklch(97.5% .012 250)",
            "100": "oklch(94.5% .028 250)",
            "200": "oklch(89% .055 252)",
            "300": "oklch(81% .09 253)",
            "400": "oklch(70% .13 254)",
            "500": "oklch(60% .155 255)",
            "600": "oklch(51% .16 256)",
            "700": "oklch(44.5% .14 257)",
            "800": "oklch(38% .115 258)",
            "900": "oklch(32% .09 259)",
            "950": "oklch(24% .07 260)",
        }
    },
    "SIDEBAR": {"navigation": "config.admin.navigation.sidebar"},
}

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"line": {"()": "config.monitoring.log_lines.Formatter", "form": LOG_FORMAT}},
    "filters": {
        "rate_limit": {"()": "config.monitoring.log_lines.RateLimitFilter"},
        "without_repetition": {"()": "config.monitoring.log_lines.WithoutRepetition"},
    },
    "handlers": {"console": {"class": "logging.StreamHandler", "formatter": "line", "filters": ["rate_limit"]}},
    "root": {"handlers": ["console"], "level": LOG_LEVEL},
    "loggers": {
        "django": {"handlers": [], "level": LOG_LEVEL, "propagate": True},
        "axes": {"level": "ERROR"},  # config.admin.log_ins says it in our words
        "django.request": {"filters": ["without_repetition"]},
        "django.security.DisallowedHost": {"level": "CRITICAL"},  # the client gets 400, which says why
    },
}

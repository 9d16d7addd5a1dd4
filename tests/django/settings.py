"""The Django project of the tests; a process of its own names a file in SHOP_DATABASE."""

import os

import django

# The Tasks API is a part of Django 6, and a package for 5.2.
TASKS_API = "django.tasks" if django.VERSION >= (6,) else "django_tasks"
SECRET_KEY = "for tests"
DEBUG = True
USE_TZ = True
TIME_ZONE = "Europe/Berlin"
ROOT_URLCONF = "tests.django.urls"
ALLOWED_HOSTS = ["*"]
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": os.environ.get("SHOP_DATABASE", ":memory:"),
        "OPTIONS": {"transaction_mode": "IMMEDIATE"},
    },
    "other": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"},
}
INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.messages",
    "django.contrib.sessions",
    *(["django_tasks"] if TASKS_API == "django_tasks" else []),
    "duly.django",
    "tests.django.shop",
]
MIDDLEWARE = [
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
]
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
STATIC_URL = "static/"
TASKS = {
    "default": {
        "BACKEND": "duly.django.tasks_backend.DulyBackend",
        "QUEUES": ["default", "mail"],
    }
}
DULY = {"QUEUES": ["default", "mail"]}

"""The project of the tests, with other packages in it: schedulers it leaves, and a search."""

from tests.django.settings import *  # noqa: F403
from tests.django.settings import INSTALLED_APPS

INSTALLED_APPS = [
    *INSTALLED_APPS,
    "scheduler",
    "django_q",
    "modelsearch",
    "tests.django.library",
]
SCHEDULER_QUEUES = {
    "default": {"URL": "redis://127.0.0.1:1/0"},
    "mail": {"URL": "redis://127.0.0.1:1/0"},
}
Q_CLUSTER = {"name": "shop", "orm": "default"}

"""The Django app: reads ``DULY``, imports the tasks of installed apps, registers the checks."""

from importlib import import_module
from typing import Final

from django.apps import AppConfig
from django.conf import settings
from django.core.checks import register
from django.core.signals import setting_changed
from django.utils.module_loading import autodiscover_modules

from duly.django.conf import SETTING, check_settings, project, use_project_settings
from duly.errors import InvalidValue

TASKS_BACKEND: Final = "duly.django.tasks_backend"


class DulyConfig(AppConfig):
    name = "duly.django"
    label = "duly"
    verbose_name = "duly"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        register(check_settings)
        setting_changed.connect(_read_again)
        _name_tables()
        try:
            use_project_settings()
        except InvalidValue:
            return  # the system checks say so
        for backend in getattr(settings, "TASKS", {}).values():
            if str(backend.get("BACKEND", "")).startswith(f"{TASKS_BACKEND}."):
                import_module(TASKS_BACKEND)  # declares the task that runs those of the API
        autodiscover_modules(project().tasks_module)


def _read_again(*, setting: str, **_: object) -> None:
    """Read ``DULY`` again when a test overrides it."""
    if setting in (SETTING, "TIME_ZONE"):
        use_project_settings()
        _name_tables()


def _name_tables() -> None:
    from duly.django.models import name_tables  # noqa: PLC0415 - models are imported after apps

    name_tables()

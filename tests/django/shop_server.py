"""The example shop in one process: its pages, and ``manage.py duly up`` beside them."""

import os
import sys
from pathlib import Path

from tests.infrastructure.wsgi_server import serving

SHOP = Path(__file__).parents[2] / "examples" / "django_shop"


def main() -> None:
    sys.path.insert(0, str(SHOP))
    os.environ["DJANGO_SETTINGS_MODULE"] = "shop.settings"
    import django
    from django.conf import settings
    from django.core.management import call_command

    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]  # a fast one
    django.setup()
    call_command("migrate", verbosity=0)
    from django.contrib.auth.models import Permission, User
    from django.contrib.staticfiles.handlers import StaticFilesHandler
    from django.core.wsgi import get_wsgi_application

    User.objects.create_superuser("ada", password="secret")
    bob = User.objects.create_user("bob", password="secret", is_staff=True)
    bob.user_permissions.set(Permission.objects.filter(codename="view_openjob"))
    with serving(StaticFilesHandler(get_wsgi_application())) as address:
        print("dashboard:", address, file=sys.stderr, flush=True)  # noqa: T201
        from duly.django.management.commands.duly import Command

        Command().run_from_argv(["manage.py", "duly", "up", "--no-web"])


if __name__ == "__main__":
    main()

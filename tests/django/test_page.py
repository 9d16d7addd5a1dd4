"""docs/django.md in a new project: blocks are put where they say, commands are typed."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[2] / "docs/django.md").read_text()
SETTINGS, TASKS, TRANSACTION, URLS, TESTS, TASKS_API = re.findall(
    r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL
)
MODELS = """
from django.db import models

class Order(models.Model):
    def __str__(self) -> str:
        return f"order {self.pk}"
"""
PLACE_ORDER = f"""
from django.db import transaction
from orders.models import Order
from orders.tasks import send_receipt
order = Order()
{TRANSACTION}
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    django(tmp_path, "-m", "django", "startproject", "shop", ".")
    django(tmp_path, "manage.py", "startapp", "orders")
    settings, urls = tmp_path / "shop/settings.py", tmp_path / "shop/urls.py"
    added = SETTINGS.replace("[...,", '[*INSTALLED_APPS, "orders",')
    settings.write_text(f"{settings.read_text()}\n{added}\n{TASKS_API}")
    imports = "from django.urls import include\n"
    urls.write_text(f"{urls.read_text()}\n{imports}{URLS.replace('[...,', '[*urlpatterns,')}")
    for name, text in (("models", MODELS), ("tasks", TASKS), ("tests", TESTS)):
        (tmp_path / "orders" / f"{name}.py").write_text(text)
    django(tmp_path, "manage.py", "makemigrations", "orders")
    django(tmp_path, "manage.py", "migrate")
    return tmp_path


@pytest.mark.thorough("makes a project and starts ten processes of Django in it")
def test_the_page_is_followed_in_a_new_project(project: Path) -> None:
    assert "Ran 1 test" in django(project, "manage.py", "test")
    django(project, "manage.py", "shell", "-c", PLACE_ORDER)
    django(project, "manage.py", "duly", "worker", "--burst")
    shown = django(project, "manage.py", "duly", "jobs", "list", "-o", "json")
    assert '"state": "succeeded"' in shown
    assert "send_receipt" in shown


def django(folder: Path, *words: str) -> str:
    environment = {name: value for name, value in os.environ.items() if "DJANGO" not in name}
    done = subprocess.run(
        [sys.executable, *words],
        cwd=folder, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
    return done.stdout + done.stderr

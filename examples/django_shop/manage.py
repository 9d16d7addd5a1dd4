"""A shop in Django with duly in its admin.

python manage.py migrate && python manage.py createsuperuser
python manage.py runserver             the admin at /admin/, the dashboard at /duly/
python manage.py duly up --no-web      scheduler and worker
"""

import os
import sys

from django.core.management import execute_from_command_line

if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "shop.settings")
    execute_from_command_line(sys.argv)

"""duly in a Django project: ``"duly.django"`` in ``INSTALLED_APPS``, and tasks in ``tasks.py``.

    from duly.django import duly


    @duly.task
    def send(order_id: int) -> None: ...

``send.enqueue(7)`` writes the job in the current transaction, on Django's own connection. Jobs and
schedules are in the project's database, in tables that ``manage.py migrate`` makes.
"""

from duly.django.app import duly

__all__ = ["duly"]

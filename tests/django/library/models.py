"""A model that the package modelsearch keeps in its index, by a task of Django's Tasks API."""

from django.db import models
from modelsearch import index


class Book(index.Indexed, models.Model):
    title = models.CharField(max_length=100)
    search_fields = [index.SearchField("title")]  # noqa: RUF012 - as its documentation has it

    def __str__(self) -> str:
        return self.title

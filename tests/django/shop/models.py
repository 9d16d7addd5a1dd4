from django.db import models


class Order(models.Model):
    customer = models.CharField(max_length=100)
    state = models.CharField(max_length=20, default="new")

    def __str__(self) -> str:
        return f"{self.customer}: {self.state}"

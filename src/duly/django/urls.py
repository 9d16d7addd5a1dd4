"""``path("duly/", include("duly.django.urls"))`` mounts the dashboard and the HTTP API."""

from django.urls import path

from duly.django.dashboard import dashboard

urlpatterns = [path("", dashboard, name="duly"), path("<path:path>", dashboard)]

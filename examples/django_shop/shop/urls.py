"""The admin, and the dashboard of duly for its staff."""

from django.contrib import admin
from django.urls import include, path

urlpatterns = [path("admin/", admin.site.urls), path("duly/", include("duly.django.urls"))]

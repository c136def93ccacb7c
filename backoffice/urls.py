"""Pages of the console that look across the apps."""

from django.urls import URLPattern

app_name = "backoffice"
urlpatterns: list[URLPattern] = []

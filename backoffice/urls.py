"""Pages of the console that look across the apps."""

from django.urls import URLPattern, path

from backoffice.search_page import search_page

app_name = "backoffice"
urlpatterns: list[URLPattern] = [path("search/", search_page, name="search")]

"""Pages of the console that look across the apps."""

from django.urls import URLPattern, path

from backoffice.alarms.pages import notices
from backoffice.alarms.runbooks import runbook
from backoffice.search_page import search_page
from backoffice.spending_page import spending
from backoffice.statement_pages import agent_statement, payee_statement

app_name = "backoffice"
# Ids in addresses are quoted as Django's console quotes them (`admin_urlquote`).
urlpatterns: list[URLPattern] = [
    path("notices/", notices, name="notices"),
    path("runbooks/<path:name>/", runbook, name="runbook"),
    path("search/", search_page, name="search"),
    path("spending/<str:name>/", spending, name="spending"),
    path("statements/agent/<path:agent_id>/", agent_statement, name="agent_statement"),
    path("statements/payee/<path:service_id>/", payee_statement, name="payee_statement"),
]

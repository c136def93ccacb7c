"""Settings of the API: what Django REST framework and drf-spectacular read."""

REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": ["policy.authentication.ApiKeyAuthentication"],
    "DEFAULT_PERMISSION_CLASSES": ["policy.authentication.HasScope"],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["rest_framework.parsers.JSONParser"],
    "DEFAULT_SCHEMA_CLASS": "drf_spectacular.openapi.AutoSchema",
    "EXCEPTION_HANDLER": "foundation.api.errors.exception_handler",
    "UNAUTHENTICATED_USER": None,
}
SPECTACULAR_SETTINGS = {
    # A generator names its package after it: not as our own client is named.
    "TITLE": "Allowance API",
    "DESCRIPTION": "Pre-funded, policy-checked budgets for software agents that pay. Amounts are decimal strings. "
    "Every address answers with and without a trailing slash, every refusal has one shape, and unless it says so, "
    "no answer may be cached (`Cache-Control: no-store`). To `OPTIONS` each of them answers 204 and, in `Allow`, its "
    "methods; no key is needed. What the server cannot read as HTTP, and headers of more than 32 KiB with the address "
    "or more than 100 of them, it refuses by itself: 400 or 431, without a body.",
    "VERSION": "1",
    "OAS_VERSION": "3.1.0",
    "PREPROCESSING_HOOKS": ["allowance.api_document.clean_paths"],
    "POSTPROCESSING_HOOKS": ["allowance.api_document.complete"],
    "LICENSE": {"name": "Apache 2.0", "identifier": "Apache-2.0"},
    "SERVERS": [{"url": "/", "description": "The installation that serves this document."}],
    "TAGS": [
        {"name": "Payments", "description": "Request a payment, and follow it to its end."},
        {"name": "Budgets", "description": "What an agent may still spend."},
        {"name": "Services", "description": "Payees: who may be paid once finance staff have approved them."},
        {"name": "Logs", "description": "Every decision, each with a receipt that can be verified."},
        {"name": "Keys", "description": "What a key may be used for."},
        {"name": "Webhooks", "description": "What a payee is sent."},
        {"name": "Installation", "description": "Whether it runs, and the keys that it signs with."},
    ],
    "SORT_OPERATIONS": False,
    "SORT_OPERATION_PARAMETERS": False,
    "ENFORCE_NON_BLANK_FIELDS": True,
    "ENUM_GENERATE_CHOICE_DESCRIPTION": False,
    "SERVE_AUTHENTICATION": [],
    "SERVE_PERMISSIONS": [],
    "SWAGGER_UI_DIST": "SIDECAR",
    "SWAGGER_UI_FAVICON_HREF": "SIDECAR",
    # By default the page sends the document's address to a validator on the internet.
    "SWAGGER_UI_SETTINGS": {"deepLinking": True, "validatorUrl": None},
}

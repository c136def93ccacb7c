"""Reads the OpenAPI document, and checks answers against it."""

from jsonschema import Draft202012Validator, FormatChecker  # type: ignore[import-untyped]

PAYMENT = ("/v1/payments/request", "post")
OPERATIONS = {
    PAYMENT: "requestPayment",
    ("/v1/payments/evaluate", "post"): "evaluatePayment",
    ("/v1/payments/x402", "post"): "payDemand",
    ("/v1/payments", "get"): "listPayments",
    ("/v1/payments/{id}", "get"): "getPayment",
    ("/v1/payments/{id}/proof", "get"): "getPaymentProof",
    ("/v1/agents/{id}/budget", "get"): "getBudget",
    ("/v1/services", "get"): "listServices",
    ("/v1/services", "post"): "registerService",
    ("/v1/services/{id}", "get"): "getService",
    ("/v1/logs", "get"): "listLogs",
    ("/v1/logs/{id}", "get"): "getLogEntry",
    ("/v1/me", "get"): "getKey",
}


def operations(document):
    return [at(document, where) for where in OPERATIONS]


def at(document, where):
    path, method = where
    return document["paths"][path][method]


def examples_of(operation):
    return [
        (status, example["value"])
        for status, response in operation["responses"].items()
        for example in response["content"]["application/json"]["examples"].values()
    ]


def validate(document, documented, body):
    check(document, documented["content"]["application/json"]["schema"], body)


def check(document, schema, value):
    rooted = {**schema, "components": document["components"]}
    faults = Draft202012Validator(rooted, format_checker=FormatChecker()).iter_errors(value)
    assert [f"{fault.json_path}: {fault.message[:200]}" for fault in faults] == []

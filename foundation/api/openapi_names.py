"""Name the parts of the OpenAPI document for the generators of clients.

An enumeration that stands inline becomes a type of its own at each place (`BudgetAsset`, `PaymentAsset`), and a model
with `allOf`, or with anything beside a `$ref`, is dropped by some generators without a word. So each enumeration is
named once, among the document's components, and what would stand beside a reference is said by the object around it.
"""

from typing import Any

from foundation.api.openapi_parts import Json, refer

# What is shown there is data, not a part of the document.
_DATA = {"example", "examples", "value", "default", "const", "enum"}


def name_enumerations(document: Json) -> None:
    """Replace every enumeration by a reference to the component that has the same values, and flatten references."""
    schemas = document["components"]["schemas"]
    names = {frozenset(schema["enum"]): name for name, schema in schemas.items() if "enum" in schema}
    for name, part in document.items():
        if name != "components":
            document[name] = _rewrite(part, names)
    for kind, parts in document["components"].items():
        for name, part in parts.items():
            if not (kind == "schemas" and "enum" in part):
                parts[name] = _rewrite(part, names)


def _rewrite(node: Any, names: dict[frozenset[str], str]) -> Any:
    if isinstance(node, list):
        return [_rewrite(inner, names) for inner in node]
    if not isinstance(node, dict):
        return node
    said = _said_of_references(node.get("properties"), names)
    rewritten = {name: inner if name in _DATA else _rewrite(inner, names) for name, inner in node.items()}
    if said:
        rewritten["description"] = "\n\n".join(filter(None, [rewritten.get("description"), *said]))
    return _flatten(rewritten, names)


def _said_of_references(properties: Any, names: dict[frozenset[str], str]) -> list[str]:
    """Say of an object what its properties say beside a reference."""
    if not isinstance(properties, dict):
        return []
    return [
        f"`{name}`: {schema['description']}"
        for name, schema in properties.items()
        if "description" in schema and "$ref" in _flatten(schema, names)
    ]


def _flatten(schema: Json, names: dict[frozenset[str], str]) -> Json:
    reference = _reference(schema, names)
    if reference is not None and _is_nullable(schema):
        described = {"description": schema["description"]} if "description" in schema else {}
        return {"oneOf": [reference, {"type": "null"}], **described}
    if reference is not None:
        return reference
    if isinstance(schema.get("enum"), list) and len(schema["enum"]) == 1:
        (only,) = schema["enum"]
        return {**{name: said for name, said in schema.items() if name != "enum"}, "const": only}
    return schema


def _reference(schema: Json, names: dict[frozenset[str], str]) -> Json | None:
    """Find what a schema comes down to: what it refers to, or the component that has its values."""
    combined = schema.get("allOf")
    if isinstance(combined, list) and len(combined) == 1 and "$ref" in combined[0]:
        return {"$ref": combined[0]["$ref"]}
    if isinstance(schema.get("$ref"), str):
        return {"$ref": schema["$ref"]}
    if isinstance(schema.get("enum"), list):
        name = names.get(frozenset(value for value in schema["enum"] if value is not None))
        return refer(name) if name else None
    return None


def _is_nullable(schema: Json) -> bool:
    return "null" in schema.get("type", ()) if isinstance(schema.get("type"), list) else None in schema.get("enum", ())

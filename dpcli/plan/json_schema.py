"""The JSON Schema of plans, for editors."""

from __future__ import annotations

from typing import Any

from dpcli.mechanisms import NAMES
from dpcli.plan.schema import RESERVED, VERSION, Plan


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of a plan, for editors.

    It takes what the loader takes when a YAML reader has already told numbers from text: a number may
    be quoted, and a name or a label may look like a number.
    """
    schema = Plan.model_json_schema()
    parts = schema["$defs"]
    for name in ("Integers", "Binned", "Dates", "Nominal", "Boolean"):
        parts[name]["required"] = ["kind", *parts[name].get("required", ())]
        parts[name]["properties"]["kind"]["description"] = "The kind of attribute."
    for name in ("Nominal", "Boolean"):
        parts[name]["properties"]["outside"]["enum"].remove("clamp")
    parts["Binned"]["oneOf"] = [{"required": ["range", "bin"]}, {"required": ["edges"]}]
    parts["Nominal"]["oneOf"] = [{"required": ["values"]}, {"required": ["hierarchy"]}]
    parts["Nominal"]["properties"]["hierarchy"]["type"] = ["string", "object", "array", "null"]
    parts["CubeRelease"]["properties"]["mechanism"]["enum"] = list(NAMES)
    version = schema["properties"]["plan"]
    version["enum"] = [version.pop("const"), str(VERSION)]
    schema["properties"]["attributes"]["propertyNames"] = {"not": {"enum": list(RESERVED)}, "minLength": 1}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "dpcli release plan",
        **_lenient(schema),
    }


def _lenient(part: Any) -> Any:
    """Let a whole number be text too, and text look like a number, except for dates; drop made-up titles."""
    if isinstance(part, list):
        return [_lenient(item) for item in part]
    if not isinstance(part, dict):
        return part
    part = {key: _lenient(value) for key, value in part.items() if key != "title"}
    if part.get("type") == "integer":
        part["type"] = ["integer", "string"]
    elif part.get("type") == "string" and not part.keys() & {"format", "enum", "const"}:
        part["type"] = ["string", "number", "boolean"]
    return part

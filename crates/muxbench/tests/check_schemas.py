"""Validates files `NAME.WORD.json` in a folder against `NAME.schema.json`, and prints the number of files by name as JSON.

A field that is not in the schema is an error, so that the schemas describe everything.

Usage: check_schemas.py FOLDER
"""

import collections
import json
import pathlib
import sys

import jsonschema_rs


def extended(schema):
    """Yields the references of objects that have fields besides those of the referenced schema."""
    for each in schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ():
        yield from extended(each)
    if isinstance(schema, dict) and "$ref" in schema and "properties" in schema:
        yield schema["$ref"]


def closed(schema, opened, place="#", is_part=False):
    """Forbids other fields in each object that lists its fields, unless its place is `opened` or it is combined with others."""
    if isinstance(schema, list):
        return [closed(each, opened, is_part=is_part) for each in schema]
    if not isinstance(schema, dict):
        return schema
    is_object = isinstance(schema.get("properties"), dict) and schema.get("type") == "object"
    has_variants = any(key in schema for key in ("allOf", "anyOf", "oneOf"))
    schema = {
        key: closed(value, opened, f"{place}/{key}", is_object and key in ("allOf", "anyOf", "oneOf"))
        for key, value in schema.items()
    }
    if is_object and not is_part and not has_variants and place not in opened and "$ref" not in schema:
        schema.setdefault("additionalProperties", False)
    return schema


folder = pathlib.Path(sys.argv[1])
counts = collections.Counter()
for path in sorted(folder.glob("*.schema.json")):
    name = path.name.removesuffix(".schema.json")
    schema = json.loads(path.read_text())
    jsonschema_rs.meta.validate(schema)
    validator = jsonschema_rs.validator_for(closed(schema, set(extended(schema))))
    for output in sorted(folder.glob(f"{name}.*.json")):
        if output == path:
            continue
        counts[name] += 1
        for error in validator.iter_errors(json.loads(output.read_text())):
            place = "/".join(map(str, error.instance_path))
            sys.exit(f"{output.name}: {place}: {str(error)[:2000]}")
    # A schema that allows everything would find no error.
    if validator.is_valid({"unknown": {"unknown": 0}}):
        sys.exit(f"{path.name} allows any object")
print(json.dumps(counts))

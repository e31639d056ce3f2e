"""The rendered files of config/: in step with the model, readable by people, usable by editors."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from dcpflow.protocol.config import Config, all_keys, load
from dcpflow.stages import config_docs

CONFIG = Path(__file__).parents[2] / "config"


def schema() -> dict[str, Any]:
    return json.loads((CONFIG / config_docs.SCHEMA_NAME).read_text("utf-8"))


def test_stored_files_are_what_the_model_says() -> None:
    assert config_docs.check(CONFIG) == [], "render them anew: python -m dcpflow config-docs --write"


def test_check_names_edited_and_missing_files_and_write_restores_them(tmp_path: Path) -> None:
    shutil.copytree(CONFIG, tmp_path, dirs_exist_ok=True)
    with (tmp_path / config_docs.YAML_NAME).open("a") as file:
        file.write("# a remark\n")
    (tmp_path / config_docs.README_NAME).unlink()
    assert config_docs.check(tmp_path) == [config_docs.YAML_NAME, config_docs.README_NAME]
    config_docs.write(tmp_path)
    assert config_docs.check(tmp_path) == []


def test_default_file_holds_every_key_with_its_default() -> None:
    written = yaml.safe_load((CONFIG / config_docs.YAML_NAME).read_text("utf-8"))
    # what is not registered is in no dump
    assert written["task"].pop("data_file") is None
    assert written == json.loads(Config().model_dump_json())
    assert load(written) == Config()


def test_every_key_is_explained_in_all_three_files() -> None:
    text = " ".join((CONFIG / config_docs.YAML_NAME).read_text("utf-8").replace("#", " ").split())
    table = (CONFIG / config_docs.README_NAME).read_text("utf-8")
    definitions = schema()
    for key, info in all_keys():
        assert info.description
        assert info.description in text, key
        row = next(line for line in table.splitlines() if line.startswith(f"| `{key}` |"))
        assert info.description in row
        part = definitions
        for name in key.split("."):
            part = part["additionalProperties"] if name == "NAME" else part["properties"][name]
            part = next((one for one in part.get("anyOf", ()) if "$ref" in one), part)
            part = definitions["$defs"][part["$ref"].rsplit("/", 1)[1]] if "$ref" in part else part
        assert part["description"].startswith(info.description), key


def test_numbers_have_a_unit() -> None:
    for key, info in all_keys():
        if info.annotation in (int, float):
            assert isinstance(info.json_schema_extra, dict) and info.json_schema_extra["unit"], key


def test_floors_and_caps_are_shown_where_the_user_edits() -> None:
    text = " ".join((CONFIG / config_docs.YAML_NAME).read_text("utf-8").replace("#", " ").split())
    assert "Must be above 0 and at most 0.05 (R6). rho: 0.05" in text
    assert "Must be between 0.8 (floor) and 1 (R7). recall_min: 0.8" in text


@pytest.mark.parametrize("value", [1e-05, 1.5e-7, 0.05, 60.0, "none", "1e-3", "yes", "a: b", "", None, True, [], {}, 7])
def test_scalars_read_back_as_they_were(value: object) -> None:
    read = yaml.safe_load(f"key: {config_docs._scalar(value)}")["key"]
    assert read == value and type(read) is type(value)


@pytest.mark.parametrize("name", ["config.yaml", "cases/demo.yaml"])
def test_editors_accept_the_files_that_ship(name: str) -> None:
    jsonschema.Draft202012Validator.check_schema(schema())
    text = (CONFIG / name).read_text("utf-8")
    jsonschema.validate(yaml.safe_load(text), schema(), jsonschema.Draft202012Validator)
    first = text.splitlines()[0]
    assert first.startswith("# yaml-language-server: $schema=")
    assert (CONFIG / name).parent.joinpath(first.split("=", 1)[1]).resolve() == CONFIG / config_docs.SCHEMA_NAME


@pytest.mark.parametrize(
    "text",
    [
        "desing: {}",
        "design: {chalengers: 3}",
        "design: {challengers: '3'}",
        "thresholds: {gate2: {kappa: 1e-3}}",
        "isolation: {backend: docker}",
        "claim: {statement: ''}",
        "limits: {processes: 0}",
        "strata: {strong: {chalengers: 3}}",
    ],
)
def test_editors_mark_what_loading_would_refuse(text: str) -> None:
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(yaml.safe_load(text), schema(), jsonschema.Draft202012Validator)


def test_default_nonce_is_the_public_one() -> None:
    comment, digits = (CONFIG / "nonces/default.nonce").read_text("utf-8").splitlines()
    assert comment == "# public-demonstration: dcpflow default audit 1"
    assert digits == hashlib.sha256(b"dcpflow default audit 1").hexdigest()

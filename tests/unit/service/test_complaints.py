from typing import Annotated

import pytest
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from orchestrator.domain.execution import Language
from orchestrator.service.complaints import complaints


class Entry(BaseModel):
    name: str
    size: int | None = None


class Form(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, extra="forbid", strict=True)

    code: Annotated[str, Field(min_length=1)]
    page_limit: int = Field(5, ge=1, le=500)
    seconds: float | None = Field(None, gt=0, le=300)
    language: Annotated[Language, Field(strict=False)] = Language.PYTHON
    key: str | None = Field(None, min_length=1, max_length=255)
    query: str | list[str] = ""
    least: int = Field(0, ge=0)
    quiet: bool = False
    entries: dict[str, Entry] | None = None
    steps: list[Entry] = Field(default_factory=list)


def told(**given) -> str:
    with pytest.raises(ValidationError) as caught:
        Form.model_validate({"code": "x", **given})
    return complaints(caught.value, Form, "body")


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"code": ""}, "`code` must be a string that is not empty."),
        ({"code": 1}, "`code` must be a string that is not empty."),
        ({"pageLimit": 0}, "`pageLimit` must be a whole number from 1 to 500."),
        ({"pageLimit": "many"}, "`pageLimit` must be a whole number from 1 to 500."),
        ({"seconds": -1}, "`seconds` must be a number greater than 0 and at most 300."),
        ({"language": "ruby"}, "`language` must be one of typescript, python."),
        ({"key": ""}, "`key` must be a string of 1 to 255 characters."),
        ({"least": -1}, "`least` must be a whole number of at least 0."),
        ({"quiet": "no"}, "`quiet` must be true or false."),
        ({"entries": []}, "`entries` must be an object."),
        ({"entries": {"a": "x"}}, "`entries.a` must be an object."),
        ({"entries": {"a": {"name": 1}}}, "`entries.a.name` must be a string."),
        ({"entries": {"a": {}}}, "`entries.a.name` is missing."),
        ({"steps": [{"name": "a", "size": "x"}]}, "`steps.0.size` must be a whole number."),
    ],
)
def test_each_says_what_must_be(given, sentence):
    assert told(**given) == sentence


def test_what_is_unknown_is_told_with_what_is_known():
    known = "`code`, `pageLimit`, `seconds`, `language`, `key`, `query`, `least`, `quiet`, `entries`, `steps`"
    assert told(bogus=1) == f"`bogus` is unknown; known are {known}."


def test_what_is_missing_is_named():
    with pytest.raises(ValidationError) as caught:
        Form.model_validate({})
    assert complaints(caught.value, Form, "body") == "`code` is missing."


def test_what_is_no_object_at_all_is_said_of_the_whole():
    with pytest.raises(ValidationError) as caught:
        Form.model_validate([])
    assert complaints(caught.value, Form, "body") == "The body must be an object."


def test_however_much_was_sent_it_stays_short():
    text = told(**{f"{'x' * 1000}{number}": 1 for number in range(100)})
    assert text.endswith("And 95 more.")
    assert len(text) < 2000

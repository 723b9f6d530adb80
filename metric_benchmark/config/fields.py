# SPDX-License-Identifier: Apache-2.0
"""Field types the configuration models share: slugs, pins, pinned paths, and what counts as a literal secret."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, Strict
from pydantic_core import PydanticCustomError

from metric_benchmark.errors import ConfigError

_SLUG = re.compile(r"[a-z0-9][a-z0-9._-]*")
_RESERVED = re.compile(r"baseline|screening|control-\d+")
#: The type of the error that says that an id is given twice; its context says which and where.
DUPLICATE = "duplicate_id"
_SET_ASIDE = re.compile(r"\.superseded-\d+$")
_SECRET_WORDS = frozenset(
    {
        "KEY",
        "APIKEY",
        "TOKEN",
        "SECRET",
        "PASSWORD",
        "PASSWD",
        "CREDENTIAL",
        "CREDENTIALS",
        "AUTH",
        "AUTHORIZATION",
    }
)
_SECRET_VALUE = re.compile(
    r"(sk-[A-Za-z0-9_-]{16,}|sk_(live|test)_\w{10,}|gh[pousr]_\w{20,}|github_pat_\w{20,}|glpat-[\w-]{16,}|AKIA[0-9A-Z]{16}"
    r"|AIza[\w-]{30,}|xox[abpr]-[\w-]{10,}|hf_\w{20,}|nvapi-[\w-]{20,}|gsk_\w{20,}|Bearer\s+[\w.-]{16,})"
)
#: A value taken from the environment when the trial starts.
REFERENCE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


class Config(BaseModel):
    """Base of all configuration models: frozen, unknown keys refused, no NaN."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, populate_by_name=True)


def _short(value: str) -> str:
    return value if len(value) <= 80 else f"{value[:77]}..."


def _slug(value: str) -> str:
    if not _SLUG.fullmatch(value) or len(value) > 80:
        raise ValueError(
            f"{_short(value)!r} is not usable as an id; expected 1 to 80 of a-z, 0-9, '.', '_', '-', starting with a "
            "letter or digit (ids become partition keys and folder names)"
        )
    return value


def check_slug(value: str, what: str) -> str:
    """Returns a name that was given outside a YAML file, if it is usable as an id.

    Raises:
        ConfigError: it is not.
    """
    try:
        return _slug(value)
    except ValueError as error:
        raise ConfigError(f"{what}: {error}") from None


def _free_slug(value: str) -> str:
    if _RESERVED.fullmatch(value):
        raise ValueError(f"{value!r} is reserved for a role (baseline, screening, control-N); choose another id")
    if value.endswith(".json"):
        raise ValueError(f"{value!r} ends like the files beside which a variant's folder stands; choose another id")
    return value


def _case_slug(value: str) -> str:
    if _SET_ASIDE.search(value):
        raise ValueError(f"{value!r} ends like the folder of an analysis that was set aside; choose another id")
    return value


def require_unique(ids: Iterable[str], *key: str) -> None:
    """Checks that ids are unique.

    Args:
        ids: the ids of a list's entries.
        key: where the id stands within an entry, for the message.

    Raises:
        PydanticCustomError: ids are given twice; its context says where each stands again.
    """
    first: dict[str, int] = {}
    repeated: list[tuple[tuple[str | int, ...], str, int]] = []
    for index, name in enumerate(ids):
        if name in first:
            repeated.append(((index, *key), name, first[name] + 1))
        first.setdefault(name, index)
    if repeated:
        raise PydanticCustomError(DUPLICATE, "ids are given twice", {"repeated": repeated})


def _relative(value: str) -> str:
    if not value or value.startswith("/") or "\\" in value or "\0" in value:
        raise ValueError(f"{value!r} is not a relative path; write it relative to the file that names it, with '/'")
    return value


Slug = Annotated[str, AfterValidator(_slug)]
CaseSlug = Annotated[str, AfterValidator(_slug), AfterValidator(_case_slug)]
FreeSlug = Annotated[str, AfterValidator(_slug), AfterValidator(_free_slug)]
RelativePath = Annotated[str, AfterValidator(_relative)]
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
#: A whole number written as one: neither `true` nor `2.0` nor a text.
Int = Annotated[int, Strict()]
Reward = Annotated[float, Field(allow_inf_nan=False)]
Fraction = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class Pinned(Config):
    """A file or folder and the digest `sign` recorded for it (absent before the first `sign`)."""

    path: RelativePath
    sha256: Sha256 | None = None


def literal_secrets(value: Any, location: tuple[str | int, ...] = ()) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Yields where a value holds a secret in plain text, and why it was taken for one.

    A string under a key that looks secret (KEY, TOKEN, SECRET, PASSWORD, CREDENTIAL, AUTH as a word of it) or with a
    known key prefix is a secret unless it is written `${VAR}`.
    """
    if isinstance(value, dict):
        for key, child in value.items():  # pyright: ignore[reportUnknownVariableType]
            yield from literal_secrets(child, (*location, str(key)))  # pyright: ignore[reportUnknownArgumentType]
    elif isinstance(value, list):
        for index, child in enumerate(value):  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
            yield from literal_secrets(child, (*location, index))
    elif isinstance(value, str) and value and not REFERENCE.fullmatch(value):
        key = next((part for part in reversed(location) if isinstance(part, str)), "")
        if _SECRET_VALUE.search(value):
            yield location, "the value looks like an API key"
        elif looks_secret(key):
            yield location, f"the key {key!r} looks like that of a secret"


def looks_secret(key: str) -> bool:
    """Tells whether a key names a secret: one of its words is KEY, TOKEN, SECRET, PASSWORD, CREDENTIAL or AUTH."""
    spaced = re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", key)
    return any(word.upper() in _SECRET_WORDS for word in re.split(r"[^A-Za-z0-9]+", spaced))

# SPDX-License-Identifier: Apache-2.0
"""Field types the configuration models share: slugs, pins, pinned paths, and what counts as a literal secret."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, Strict
from pydantic_core import PydanticCustomError

from metric_benchmark.errors import ConfigError

_SLUG = re.compile(r"[a-z0-9][a-z0-9._-]*")
#: Ids of the variants that are no mutants.
RESERVED_ID = re.compile(r"baseline|screening|control-\d+")
#: The type of the error that says that an id is given twice; its context says which and where.
DUPLICATE = "duplicate_id"
#: The type of the error of a whole file that knows which of its values are wrong.
ELSEWHERE = "elsewhere"
_SET_ASIDE = re.compile(r"\.superseded-\d+$")
#: Harbor's own rule for what it masks (harbor.utils.env), and plurals and short forms of it.
_SECRET_KEY = re.compile(r"KEY|SECRET|TOKEN|PASSWORD|PASSWD|PASSPHRASE|CREDENTIAL|AUTH", re.IGNORECASE)
#: Words that only hold such letters.
_INNOCENT = (
    r"KEYBOARDS?|KEYWORDS?|KEYNOTES?|KEYSTROKES?|KEYFRAMES?|KEYSPACE|MONKEYS?|DONKEYS?|TURKEYS?|HOCKEY|JOCKEYS?|WHISKEY"
    r"|TOKENI[SZ](ERS?|E|ED|ING|ATION)|AUTHORS?(HIP|ED)?|AUTHENTIC(ITY)?|SECRETAR(Y|IES)|REWARD_KEYS?"
    r"|(SORT|GROUP|PRIMARY|FOREIGN|PARTITION|DICT|MAP)_KEYS?|KEY_?(NAMES?|VALUES?|EVENTS?|BINDINGS?)|AUTHORING"
)
_INNOCENT_WORDS = re.compile(rf"(?<![A-Za-z0-9])({_INNOCENT})(?![A-Za-z0-9])", re.IGNORECASE)
#: A number of tokens; what stands under `tokens` alone is one's own tokens.
_COUNT = re.compile(r"(?<=[A-Za-z0-9])_TOKENS(?![A-Za-z0-9])|(?<![A-Za-z0-9])TOKENS_(?=[A-Za-z0-9])", re.IGNORECASE)
_SECRET_VALUE = re.compile(
    r"sk-[A-Za-z0-9_-]{16,}|sk_(live|test)_\w{10,}|gh[pousr]_\w{20,}|github_pat_\w{20,}|glpat-[\w-]{16,}|AKIA[0-9A-Z]{16}"
    r"|AIza[\w-]{30,}|xox[abpr]-[\w-]{10,}|hf_\w{20,}|nvapi-[\w-]{20,}|gsk_\w{20,}|Bearer\s+[\w.-]{16,}"
    r"|\beyJ[\w-]{10,}\.eyJ[\w-]{10,}\.[\w-]{10,}"
)
_PRIVATE_KEY = re.compile(r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY")
#: A URL that holds the password of its user.
URL_PASSWORD = re.compile(r"\b[a-z][a-z0-9+.-]*://[^\s/:@]*:(?P<password>[^\s/@]+)@", re.IGNORECASE)
#: A value taken from the environment when the trial starts.
REFERENCE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
#: The same, or `${VAR:-default}`, which Harbor knows.
REFERENCE_OR_DEFAULT = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-[^}]*)?\}")


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
    if RESERVED_ID.fullmatch(value):
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


type _Where = tuple[str | int, ...]


def literal_secrets(value: Any, location: _Where = (), key: str = "") -> Iterator[tuple[_Where, str]]:
    """Yields where a value holds a secret in plain text, and why it was taken for one.

    A text or a number under a key that looks secret (see `looks_secret`), however deep, is a secret unless it is
    written `${VAR}`; so is a value, or a key of a mapping, that looks like an API key, a token, a private key or a URL
    with a password.

    Args:
        value: any part of a configuration file.
        location: where it stands.
        key: the key above it that looks secret.
    """
    if isinstance(value, dict):
        for name, child in value.items():  # pyright: ignore[reportUnknownVariableType]
            name = str(name)  # pyright: ignore[reportUnknownArgumentType]
            if why := _looks_like(name):
                # The name is the secret, so that no message may show it.
                yield location, f"a key of this mapping looks like {why}"
            else:
                inherited = name if looks_secret(name, child) else key
                yield from literal_secrets(child, (*location, name), inherited)
    elif isinstance(value, list):
        for index, child in enumerate(value):  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
            yield from literal_secrets(child, (*location, index), key)
    elif isinstance(value, str | int | float) and not isinstance(value, bool) and value != "":
        text = str(value)
        if REFERENCE.fullmatch(text):
            return
        if why := _looks_like(text):
            yield location, f"the value looks like {why}"
        elif key:
            yield location, f"the key {key!r} looks like that of a secret"


def secret_parts(text: str) -> list[str]:
    """Returns what nobody may read of a text that is public otherwise: API keys, private keys, passwords in URLs."""
    if _PRIVATE_KEY.search(text):
        return [text]
    keys = [found.group() for found in _SECRET_VALUE.finditer(text)]
    return list(dict.fromkeys([*keys, *(found["password"] for found in URL_PASSWORD.finditer(text))]))


@functools.lru_cache(maxsize=4096)
def _looks_like(text: str) -> str | None:
    if _PRIVATE_KEY.search(text):
        return "a private key"
    if _SECRET_VALUE.search(text):
        return "an API key"
    if any(not REFERENCE.fullmatch(found["password"]) for found in URL_PASSWORD.finditer(text)):
        return "a URL with a password"
    return None


def looks_secret(key: str, value: Any = None) -> bool:
    """Tells whether a key names a secret: by Harbor's rule, KEY, TOKEN, SECRET, PASSWORD, CREDENTIAL or AUTH is in it.

    Words that only look alike (`keyboard`, `author`, `reward_key`) are none, nor is a count of tokens (`max_tokens`).
    """
    is_number = isinstance(value, int | float | None) or (
        isinstance(value, str) and re.fullmatch(r"[0-9_.]+", value) is not None
    )
    return _names_secret(key, may_be_count=is_number)


# The same few keys are asked for in every mutant of every case.
@functools.lru_cache(maxsize=4096)
def _names_secret(key: str, *, may_be_count: bool) -> bool:
    snake = re.sub(r"[^A-Za-z0-9]+", "_", re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", key))
    # What is left of an innocent word must not join its neighbours to a new one.
    rest = _INNOCENT_WORDS.sub("#", snake)
    if may_be_count:
        rest = _COUNT.sub("#", rest)
    return bool(_SECRET_KEY.search(rest))

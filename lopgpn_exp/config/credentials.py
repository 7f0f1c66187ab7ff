"""Keep credentials in the address of a tracking store out of files, messages and links."""

from __future__ import annotations

import re
from collections.abc import Callable
from urllib.parse import unquote

HIDDEN = "***"
SECRET_KEYS = re.compile("pass|pwd|token|secret|key|auth|credential|signature", re.IGNORECASE)
HOST = re.compile(r"(\[[0-9A-Fa-f:.]*\]|[\w.-]*)(:\d*)?")  # with a port or without; may be empty
NO_SCHEME = re.compile(r"[^/@]+:|\*\*\*@")  # beginning of an address with credentials but no scheme
MIN_SECRET = 4  # characters: replacing a shorter piece would only damage a message


def hide_credentials(uri: str) -> str:
    """Return an address with `***` for the user and password, and for query values such as `password=...`."""
    return _change_credentials(uri, lambda _: HIDDEN)


def remove_credentials(uri: str) -> str:
    """Return an address without any credentials, as a browser needs it."""
    return _change_credentials(uri, lambda _: None)


def drop_hidden(uri: str) -> str:
    """Return an address without the `***` of `hide_credentials`: nobody can log in with them."""
    return _change_credentials(uri, lambda value: None if value == HIDDEN else value)


def hide_in_text(text: str, uri: str = "") -> str:
    """Return a message of another library without the credentials of `uri` and of other addresses in it."""
    secrets: set[str] = set()

    def collect(value: str) -> None:
        secrets.update(_pieces(value))

    _change_credentials(uri, collect)
    text = text.replace(uri, hide_credentials(uri)) if uri else text
    text = re.sub(r"[\w+.-]+://[^\s'\"]+", lambda match: hide_credentials(match[0]), text)
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, HIDDEN)
    return text


def _pieces(value: str) -> set[str]:
    """Return the texts in which a library may quote a secret, such as the part of a password before its slash."""
    password = value.partition(":")[2] or value
    pieces = {password, unquote(password), *re.split("[/?#@:]", password)}
    return {piece for piece in pieces if len(piece) >= MIN_SECRET}


def _change_credentials(uri: str, change: Callable[[str], str | None]) -> str:
    """Return an address in which each credential is what `change` returns for it; None removes it.

    Characters that should have been escaped in a password (`/`, `?`, `@`) do not end it.
    """
    scheme, separator, rest = uri.partition("://")
    if not separator:
        scheme, rest = "", uri
    location, mark, query = rest.partition("?")
    if not HOST.fullmatch(re.split("[/#]", location)[0]) and (separator or NO_SCHEME.match(rest)):
        if "@" not in location:
            location, mark, query = rest, "", ""
        userinfo, at, host = location.rpartition("@")
        if at:
            changed = change(userinfo)
            location = host if changed is None else f"{changed}@{host}"
    pairs = [_change_pair(pair, change) for pair in query.split("&")]
    query = "&".join(pair for pair in pairs if pair is not None)
    return f"{scheme}{separator}{location}{mark if query else ''}{query}"


def _change_pair(pair: str, change: Callable[[str], str | None]) -> str | None:
    key, _, value = pair.partition("=")
    if not value or not SECRET_KEYS.search(key):
        return pair
    changed = change(value)
    return None if changed is None else f"{key}={changed}"

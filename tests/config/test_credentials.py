"""Addresses without the credentials in them."""

import pytest

from lopgpn_exp.config.credentials import drop_hidden, hide_credentials, hide_in_text, remove_credentials

# Addresses as shown, and as opened in a browser.
ADDRESSES = {
    "http://me:hunter22@server:5000/x": ("http://***@server:5000/x", "http://server:5000/x"),
    "https://hunter22@server": ("https://***@server", "https://server"),
    "http://me:hunter22@[::1]:5000": ("http://***@[::1]:5000", "http://[::1]:5000"),
    "postgresql://me:hunter22@db/runs?sslmode=require": (
        "postgresql://***@db/runs?sslmode=require",
        "postgresql://db/runs?sslmode=require",
    ),
    "postgresql:///runs?user=me&password=hunter22": (
        "postgresql:///runs?user=me&password=***",
        "postgresql:///runs?user=me",
    ),
    "http://server?API_KEY=hunter22": ("http://server?API_KEY=***", "http://server"),
    # Characters that should have been escaped.
    "http://me:hunter22/x@server": ("http://***@server", "http://server"),
    "http://me:hunter22?x@server": ("http://***@server", "http://server"),
    "http://me:hunter22@x/y@server": ("http://***@server", "http://server"),
    "http://me:hunter 22@server": ("http://***@server", "http://server"),
    "me:hunter22@server:5000": ("***@server:5000", "server:5000"),
}
PLAIN = [
    *("", "http://server:5000/a@b", "http://[::1]:5000", "sqlite:///outputs/mlflow.db", "sqlite:////me@home/a.db"),
    *("databricks://profile", "mlruns@home", "postgresql://db/runs?options=a@b", "file:///x"),
]


@pytest.mark.parametrize("uri", ADDRESSES)
def test_credentials_are_hidden_or_removed(uri):
    hidden, removed = ADDRESSES[uri]
    assert hide_credentials(uri) == hide_credentials(hidden) == hidden
    assert remove_credentials(uri) == remove_credentials(hidden) == removed
    assert drop_hidden(uri) == uri


@pytest.mark.parametrize("uri", PLAIN)
def test_address_without_credentials_stays_as_it_is(uri):
    assert hide_credentials(uri) == remove_credentials(uri) == drop_hidden(uri) == uri


@pytest.mark.parametrize(("uri", "expected"), [(uri, removed) for uri, (_, removed) in ADDRESSES.items()])
def test_hidden_credentials_are_not_used_to_log_in(uri, expected):
    assert drop_hidden(hide_credentials(uri)) == expected


@pytest.mark.parametrize("uri", ADDRESSES)
def test_messages_of_other_libraries_are_cleaned(uri):
    password = "hunter 22" if "hunter 22" in uri else "hunter22"
    cleaned = hide_in_text(f"request to {uri}/api failed (port '{password}/x', {password}) for http://a:b@c/d", uri)
    assert "http://***@c/d" in cleaned
    assert password not in cleaned
    assert cleaned.startswith("request to ")

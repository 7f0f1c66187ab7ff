"""Parquet files with checksums: a damaged file is refused instead of being read with other numbers.

Each page has a checksum. Since these do not cover the names of columns, the metadata and the encoding of the pages, the
file also contains a digest of its decoded content.
"""

from __future__ import annotations

import hashlib
import json
import logging
from functools import lru_cache
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from lopgpn_exp.runs.storage import atomic_write

DIGEST_KEY = b"lopgpn_exp_sha256"

log = logging.getLogger(__name__)


def write_parquet(path: Path, table: pa.Table) -> None:
    """Write a table with page checksums and a digest of its content. Its metadata is part of the content."""
    metadata = {**(table.schema.metadata or {}), DIGEST_KEY: compute_digest(table)}
    table = table.replace_schema_metadata(metadata)
    options = {"compression": "zstd", "compression_level": 9, "write_page_checksum": True}
    path.parent.mkdir(parents=True, exist_ok=True)
    atomic_write(path, lambda temporary: pq.write_table(table, temporary, **options))


def read_parquet(path: Path) -> pa.Table:
    """Read a table and verify its checksums. Files of earlier versions have none and are read with a warning.

    Raises:
        OSError, ValueError, MemoryError: if the file is damaged; errors of pyarrow are among these.
    """
    with path.open("rb") as file:
        # Without threads, so that none keeps reading a damaged file after the first error.
        table = pq.read_table(file, page_checksum_verification=True, use_threads=False, pre_buffer=False)
    table.validate(full=True)
    stored = (table.schema.metadata or {}).get(DIGEST_KEY)
    if stored is None:
        _warn_of_missing_digest(path)
    elif stored != compute_digest(table):
        raise ValueError("wrong checksum: the file is damaged")
    return table


def compute_digest(table: pa.Table) -> bytes:
    """Return a hash of column names, values and metadata. Values are hashed as JSON, which is exact and shows types."""
    metadata = {key: value for key, value in (table.schema.metadata or {}).items() if key != DIGEST_KEY}
    digest = hashlib.sha256(repr(sorted(metadata.items())).encode())
    for name, column in zip(table.column_names, table.columns, strict=True):
        digest.update(json.dumps([name, column.to_pylist()]).encode())
    return digest.hexdigest().encode()


@lru_cache  # once per file
def _warn_of_missing_digest(path: Path) -> None:
    log.warning("%s has no checksum (written by an earlier version): damage to it would go unnoticed", path)

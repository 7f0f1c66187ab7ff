"""Damaged, foreign and malicious files end in one error, without a traceback and without executing code."""

import pickle
import subprocess
import sys
from contextlib import suppress

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lopgpn_exp.data.files import custom_graph
from lopgpn_exp.errors import InputError
from lopgpn_exp.graph import Graph
from tests.support.graph_files import expect_error, pyg_data, write_csv, write_npz


class Malicious:
    def __reduce__(self):
        return subprocess.check_call, ([sys.executable, "-c", "open('executed', 'w')"],)


def test_a_file_cannot_execute_code(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    torch.save({"x": Malicious()}, tmp_path / "graph.pt")
    expect_error("cannot be read", path=str(tmp_path / "graph.pt"))
    (tmp_path / "plain.pt").write_bytes(pickle.dumps(Malicious()))
    expect_error("cannot be read", path=str(tmp_path / "plain.pt"))
    write_npz(tmp_path / "graph.npz", node_names=np.array([Malicious()] * 3, dtype=object))
    expect_error("cannot be read", path=str(tmp_path / "graph.npz"))
    assert not (tmp_path / "executed").exists()


def write_graph(kind: str, folder) -> list:
    """Write a small graph in a format and return its files."""
    write_csv(folder)
    if kind == "parquet":
        pd.read_csv(folder / "nodes.csv").to_parquet(folder / "nodes.parquet")
        pd.read_csv(folder / "edges.csv").to_parquet(folder / "edges.parquet")
    if kind == "pt":
        torch.save(pyg_data(), folder / "graph.pt")
    if kind == "npz":
        write_npz(folder / "graph.npz")
    names = ["nodes", "edges"] if kind in ("csv", "parquet") else ["graph"]
    return [folder / f"{name}.{kind}" for name in names]


@pytest.mark.parametrize("kind", ["csv", "parquet", "pt", "npz"])
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(draw=st.data())
def test_damaged_files_never_end_in_a_traceback(tmp_path, kind, draw):
    """Truncated or with changed bytes anywhere: a graph, or one error."""
    files = write_graph(kind, tmp_path)
    file = draw.draw(st.sampled_from(files))
    content = bytearray(file.read_bytes())
    for _ in range(draw.draw(st.integers(0, 6))):
        content[draw.draw(st.integers(0, len(content) - 1))] = draw.draw(st.integers(0, 255))
    length = draw.draw(st.integers(0, len(content)))
    file.write_bytes(bytes(content[:length]))
    options = {"path": str(files[0])} | ({"edges": str(files[1])} if len(files) == 2 else {})
    with suppress(InputError):
        assert isinstance(custom_graph(**options, memory_limit_gib=1.0), Graph)


CELLS = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), max_size=6)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=st.lists(st.lists(CELLS, min_size=1, max_size=5), max_size=6), header=st.lists(CELLS, max_size=5))
def test_any_text_as_a_table_is_a_graph_or_one_error(tmp_path, rows, header):
    lines = [",".join(row) for row in ([["id", "label", *header]] if len(rows) % 2 else [header]) + rows]
    write_csv(tmp_path, nodes="\n".join(lines))
    with suppress(InputError):
        assert isinstance(custom_graph(path=str(tmp_path)), Graph)

"""The tune command: it searches on validation nodes only, and continues where it was stopped."""

import shlex

import pytest

from lopgpn_exp.runs.table import read_results
from tests.support import TINY

WORDS = [word for word in TINY if word != "trainer.progress=false"]
SEARCH = ["model.teleport=tag(log,interval(0.05,0.9))", "model.hidden_dim=choice(4,8)"]

pytestmark = pytest.mark.filterwarnings("ignore")  # optuna's own


def test_study_is_continued_and_the_best_values_are_those_of_the_validation_nodes(command, tmp_path):
    def search(num_trials: int) -> str:
        code, out, err = command("tune", *WORDS, *SEARCH, "--trials", str(num_trials), "--output-dir", "studies")
        assert code == 0, err
        return out

    assert "0 trials done, 3 to do" in search(3)
    assert "3 trials done, 2 to do" in search(5)
    out = search(5)
    assert "5 trials done, 0 to do" in out
    results = read_results(tmp_path / "studies")
    best = min(results, key=lambda result: result.metrics["val/nll"])
    assert out.splitlines()[1].startswith(f"val/nll {best.metrics['val/nll']:.4f}")
    assert {result.scenario for result in results} == {"none"}
    # The next command is the best run, which is finished already.
    program, *words = shlex.split(out.splitlines()[-1].removeprefix("next"))
    assert (program, words[0], words[-1]) == ("lopgpn_exp", "run", "output_dir=studies")
    code, out, err = command(*words, "trainer.progress=false")
    assert code == 0, err
    assert "finished before" in out
    assert best.run_id in out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["model=appnp"], "there is nothing to search"),
        (["model.teleprt=interval(0,1)"], "there is no model.teleprt"),
        (["model.teleport=interval(0"], "expected:"),
        (["model.teleport=interval(2,3)"], "try:      model.teleport=0.1"),
    ],
)
def test_input_error_is_one_message(command, words, message):
    code, _, err = command("tune", *WORDS, *words, "--trials", "1")
    assert code == 2
    assert message in err
    assert "Traceback" not in err

"""The search looks at validation nodes only, and goes on where it was stopped."""

import pytest

from lopgpn_exp.experiment.collect import read_results
from lopgpn_exp.tune import main
from tests.test_experiment import TINY

WORDS = [word for word in TINY if word not in ("trainer.progress=false",)]
SEARCH = ["model.teleport=tag(log,interval(0.05,0.9))", "model.hidden_dim=choice(4,8)"]


@pytest.mark.filterwarnings("ignore")  # optuna's own
def test_a_study_resumes_and_names_the_best_by_validation(tmp_path, capsys):
    def search(trials):
        main([*WORDS, *SEARCH, "--trials", str(trials), "--output-dir", str(tmp_path)])
        return capsys.readouterr().out

    assert "0 trials done, 3 to do" in search(3)
    assert "3 trials done, 2 to do" in search(5)
    out = search(5)
    assert "5 trials done, 0 to do" in out
    results = read_results(tmp_path)
    best = min(result["metrics"]["val/nll"] for result in results)
    assert out.splitlines()[1].startswith(f"val/nll {best:.4f}")
    assert "run the best: python -m lopgpn_exp" in out
    assert {result["scenario"] for result in results} == {"none"}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["model=appnp"], "nothing is searched"),
        (["model.teleprt=interval(0,1)"], "there is no model.teleprt"),
        (["model.teleport=interval(0"], "expected:"),
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_mistakes_are_one_message(tmp_path, capsys, words, message):
    with pytest.raises(SystemExit) as stop:
        main([*WORDS, *words, "--trials", "1", "--output-dir", str(tmp_path)])
    assert stop.value.code == 2
    assert message in capsys.readouterr().err

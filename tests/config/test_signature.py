"""Options of a user's class are checked against its signature, and a module that cannot be used is one message."""

import pytest

from lopgpn_exp.config.compose import compose_config
from lopgpn_exp.config.plan import RunPlan, plan_run
from lopgpn_exp.errors import InputError
from tests.support import TINY
from tests.support.user_code import MODEL, UserProject, write_files

# Text of the module, what the message says is wrong, and what it suggests or expects.
ERRORS = {
    "raise KeyError('x')": ("KeyError: 'x', own_module.py, line 1", "import path"),
    "import nowhere": ("No module named 'nowhere'", "start from the folder that contains nowhere"),
    "def f(:": ("own_module.py, line 1", "import path"),
    "class Mine: pass": ("which is not a model", "GradientModel, ClosedFormModel or CompositeModel"),
    "Mine = 3": ("cannot be imported or called (a int)", "import path"),
    "class Mne: pass": ("no attribute 'Mine'", "model._target_=own_module.Mne"),
    "from lopgpn_exp.models import GradientModel as Mine": (
        "own_module.Mine does not implement forward",
        "forward, node_loss, prepare",
    ),
    MODEL + "    def __init__(self, *, num_classes: int, num_features: int): ...\n": (
        "model.hidden_dim is not an option of own_module.Mine",
        "expected: one of",
    ),
}


def plan(project: UserProject, *overrides: str) -> RunPlan:
    return plan_run(compose_config([*TINY, "model=mine", *overrides], config_dir=project.config_dir))


@pytest.mark.parametrize("text", ERRORS, ids=lambda text: text[-20:])
def test_module_that_cannot_be_used_is_one_message(user_project, text):
    user_project.write(own_module=text)
    with pytest.raises(InputError) as caught:
        plan(user_project)
    assert all(words in str(caught.value) for words in ERRORS[text])


def test_parameters_may_be_positional(user_project):
    """Most people write `def __init__(self, num_features, num_classes, width=8)`."""
    constructor = "\n    def __init__(self, num_features, num_classes, width: int = 8):\n        super().__init__("
    user_project.write(own_module=MODEL + constructor + "num_features=num_features, num_classes=num_classes)\n")
    config = "name: mine\n_target_: own_module.Mine\nwidth: 4\n"
    write_files(user_project.config_dir, {"model/mine.yaml": config})
    assert plan(user_project).model_options == {"width": 4}
    with pytest.raises(InputError, match=r"model\.width is 'a'"):
        plan(user_project, "model.width=a")


def test_parameter_without_a_default_is_required(user_project):
    constructor = "\n    def __init__(self, *, num_features, num_classes, width: int):\n        super().__init__("
    user_project.write(own_module=MODEL + constructor + "num_features=num_features, num_classes=num_classes)\n")
    write_files(user_project.config_dir, {"model/mine.yaml": "name: mine\n_target_: own_module.Mine\n"})
    with pytest.raises(InputError, match=r"model\.width is not set") as caught:
        plan(user_project)
    assert caught.value.hint == "+model.width=VALUE"

"""The models together: nothing of a module is in none of them."""

from __future__ import annotations

from mqcheck.cache import texts
from mqcheck.manifest import MODELS, TLA, models


def test_an_action_that_a_model_leaves_out_is_in_another() -> None:
    sound = [model for model in models().values() if model.defect is None]
    left_out = {action for model in sound for action in model.untaken}
    words = {model.name: b" ".join(texts(model.module, (TLA, MODELS))) for model in sound}
    taken = {
        action
        for action in left_out
        for model in sound
        if action not in model.untaken and action.encode() in words[model.name]
    }
    assert left_out
    assert left_out - taken == set()

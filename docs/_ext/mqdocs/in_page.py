"""What the page of the explorer calls: it is run by Brython, in a browser, and nowhere else."""

from __future__ import annotations

import json

from browser import window

from mqdocs.explored import answered, asked_of
from mqrules.errors import UserError
from mqspec.commands.plan import as_json, plan


def _answered(form: str) -> str:
    """The HTML below the form, whose fields come as JSON."""
    return answered(json.loads(form))


def _tried(form: str) -> str:
    """What the command prints with --json, or the line in which it says no."""
    try:
        return json.dumps(as_json(plan(asked_of(json.loads(form)))))
    except UserError as error:
        return str(error)


window.mqspecAnswered = _answered
window.mqspecTry = _tried
window.mqspecReady()

"""The scenarios, a module for each matter."""

from mqconform.clients.scenario import SCENARIOS, Scenario
from mqconform.clients.scenarios import (
    broadcasting,
    order,
    polling,
    popping,
    producing,
    progress,
    sharing,
    trouble,
)

__all__ = [
    "SCENARIOS",
    "Scenario",
    "broadcasting",
    "order",
    "polling",
    "popping",
    "producing",
    "progress",
    "sharing",
    "trouble",
]

"""The scenarios, a module for each matter."""

from mqconform.clients.scenario import SCENARIOS, Scenario
from mqconform.clients.scenarios import order, producing, progress, sharing, trouble

__all__ = ["SCENARIOS", "Scenario", "order", "producing", "progress", "sharing", "trouble"]

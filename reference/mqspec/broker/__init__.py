"""The broker: carries requests and the clock to the core, and messages to the store."""

from mqspec.broker.broker import Broker
from mqspec.broker.controller import BrokerController

__all__ = ["Broker", "BrokerController"]

"""The broker: carries requests and the clock to the core, and messages to the store."""

from mqspec.broker.broker import Broker

__all__ = ["Broker"]

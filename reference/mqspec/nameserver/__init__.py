"""The nameserver: carries brokers' registrations and clients' questions to core.route."""

from mqspec.nameserver.controller import NamesrvController
from mqspec.nameserver.nameserver import NameServer

__all__ = ["NameServer", "NamesrvController"]

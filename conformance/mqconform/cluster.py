"""The brokers behind a nameserver, and waiting until they serve."""

from __future__ import annotations

from typing import Final

from mqconform import requests
from mqconform.connection import ClosedError, Connection, SilentError, eventually
from mqconform.requests import Request
from mqconform.target import Address
from mqconform.transcript import Transcript
from mqrules import UserError

READY_S: Final = 180.0  # for a broker to serve after its start: a JVM on a busy machine
_ANSWER_S: Final = 4.0  # for a nameserver to answer at all
_CLUSTER_INFO: Final = Request(requests.GET_BROKER_CLUSTER_INFO)


class Cluster:
    """Master brokers by name, in the order of their names."""

    def __init__(self, nameserver: Address) -> None:
        self.nameserver = nameserver
        self.brokers: dict[str, Address] = {}

    def find(self) -> None:
        """Look the brokers up. Raises UserError where there is nothing to test."""
        try:
            found = self._registered()
        except SilentError:
            what = "does not answer as a nameserver"
            raise UserError(str(self.nameserver), what, "give a nameserver's address") from None
        except (OSError, AssertionError, ValueError) as error:
            what = f"no nameserver there: {error}"
            raise UserError(str(self.nameserver), what, "give a nameserver's address") from None
        self.brokers = {name: address for name, address in found.items() if listens(address)}
        if not self.brokers:
            what = "no broker is registered there that can be reached"
            raise UserError(str(self.nameserver), what, "start a broker that names it")

    def wait(self, count: int = 0) -> None:
        """Wait until at least `count` brokers, and all that were there before, serve.

        Raises UserError.
        """
        names = set(self.brokers)
        if not eventually(lambda: self._serves(names, count), READY_S):
            raise UserError(str(self.nameserver), f"no broker serves after {READY_S:.0f} s")

    def _serves(self, names: set[str], count: int) -> bool:
        try:
            found = self._registered()
            if not (names <= set(found) and len(found) >= count):
                return False
            self.brokers = {name: found[name] for name in found if not names or name in names}
            return all(_stores(address) for address in self.brokers.values())
        except (OSError, SilentError, ClosedError):
            return False

    def _registered(self) -> dict[str, Address]:
        with Connection(self.nameserver, Transcript(), _ANSWER_S) as connection:
            table = connection.call(_CLUSTER_INFO).json()["brokerAddrTable"]
        masters = {name: data["brokerAddrs"].get("0") for name, data in table.items()}
        return {name: _address(masters[name]) for name in sorted(masters) if masters[name]}


def _stores(address: Address) -> bool:
    """Whether a broker takes messages: for a moment after its start it does not."""
    with Connection(address, Transcript()) as connection:
        return connection.call(requests.send(requests.DEFAULT_TOPIC)).code == 0


def listens(address: Address) -> bool:
    """Whether somebody does there."""
    try:
        Connection(address, Transcript()).close()
    except OSError:
        return False
    return True


def _address(text: str) -> Address:
    host, _, port = text.rpartition(":")
    return Address(host, int(port))

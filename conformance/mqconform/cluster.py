"""The brokers behind a nameserver, and waiting until they serve."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Final

from mqconform import requests
from mqconform.connection import ClosedError, Connection, SilentError, eventually
from mqconform.frame import Frame
from mqconform.requests import Request
from mqconform.target import Address, parse_address
from mqconform.transcript import Transcript
from mqrules import UserError

READY_S: Final = 180.0  # for a broker to serve after its start: a JVM on a busy machine
_ANSWER_S: Final = 4.0  # for a nameserver to answer at all
_CLUSTER_INFO: Final = Request(requests.GET_BROKER_CLUSTER_INFO)
_ASKED_MAX: Final = 9  # times, for a list of brokers: each may meet a registration
_FAILED_CODE: Final = 1
_UNKNOWN_CODE: Final = 3  # what a server answers to a request that is not for it
_SHOWN_BYTES: Final = 200
NOWHERE: Final[Mapping[Address, Address]] = {}
_REMEDY: Final = "give a nameserver's address"


def cluster_info(nameserver: Connection) -> Frame:
    """What a nameserver tells of all brokers and clusters. It may fail while a broker registers
    (NAMESRV-004), and is asked again then. Raises SilentError or ClosedError."""
    for _ in range(_ASKED_MAX):
        answer = nameserver.call(_CLUSTER_INFO)
        if answer.code != _FAILED_CODE:
            break
    return answer


class Cluster:
    """Master brokers by name, in the order of their names."""

    def __init__(self, nameserver: Address, places: Mapping[Address, Address] = NOWHERE) -> None:
        """`places` maps addresses that brokers register to where they can be reached."""
        self.nameserver, self._places = nameserver, places
        self.brokers: dict[str, Address] = {}
        self.topics_by_use = self.groups_by_use = True  # whether both come to be by being used

    def find(self) -> None:
        """Look the brokers up. Raises UserError where there is nothing to test."""
        try:
            found = self._registered()
        except SilentError:
            what = "does not answer as a nameserver"
            raise UserError(str(self.nameserver), what, _REMEDY) from None
        except (OSError, AssertionError) as error:
            what = f"no nameserver there: {error}"
            raise UserError(str(self.nameserver), what, _REMEDY) from None
        self.brokers = {name: address for name, address in found.items() if listens(address)}
        if not self.brokers:
            what = "no broker is registered there that can be reached"
            tried = ", ".join(f"{name} at {address}" for name, address in found.items())
            tried = tried and f"; tried: {tried}"
            remedy = "start a broker that names it, or say where it is with --map"
            raise UserError(str(self.nameserver), what + tried, remedy)
        self._look_what_use_makes()

    def wait(self, count: int = 0) -> None:
        """Wait until at least `count` brokers, and all that were there before, serve.

        Raises UserError.
        """
        names = set(self.brokers)
        if not eventually(lambda: self._serves(names, count), READY_S):
            raise UserError(str(self.nameserver), f"no broker serves after {READY_S:.0f} s")

    def lost(self) -> tuple[str, str] | None:
        """A server that was there and does not serve any more, if any, and how that shows."""
        servers = {"nameserver": self.nameserver} | self.brokers
        for name, address in servers.items():
            if how := _lost(address):
                return f"{name} at {address}", how
        return None

    def _look_what_use_makes(self) -> None:
        """By the first broker's options; one that shows none is taken to be as delivered."""
        with contextlib.suppress(OSError, AssertionError, UnicodeDecodeError):
            with Connection(next(iter(self.brokers.values())), Transcript()) as connection:
                answer = connection.call(Request(requests.GET_BROKER_CONFIG))
            options = set(answer.body.decode().split("\n"))
            self.topics_by_use = "autoCreateTopicEnable=false" not in options
            self.groups_by_use = "autoCreateSubscriptionGroup=false" not in options

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
        """Raises OSError, SilentError or ClosedError without an answer, UserError where it is
        not a nameserver's."""
        with Connection(self.nameserver, Transcript(), _ANSWER_S) as connection:
            answer = cluster_info(connection)
        if answer.code != 0:
            what = f"answers code {answer.code} {answer.remark!r}, and no list of brokers"
            hint = ", as a broker does" if answer.code == _UNKNOWN_CODE else ""
            raise UserError(str(self.nameserver), what + hint, _REMEDY)
        try:
            table = answer.json()["brokerAddrTable"]
            masters = {name: data["brokerAddrs"].get("0") for name, data in table.items()}
            found = {n: parse_address(masters[n]) for n in sorted(masters) if masters[n]}
            return {name: self._places.get(place, place) for name, place in found.items()}
        # Whatever shape it has: the lookups above say no in as many ways.
        except (ValueError, LookupError, TypeError, AttributeError, UserError):
            what = f"answers what is no list of brokers: {answer.body[:_SHOWN_BYTES]!r}"
            raise UserError(str(self.nameserver), what, _REMEDY) from None


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


def _lost(address: Address) -> str:
    """How a server shows that it does not serve any more; nothing where it answers anything."""
    try:
        with Connection(address, Transcript()) as connection:
            connection.call(_CLUSTER_INFO)
    except SilentError:
        return "answers nothing any more"
    except (OSError, ClosedError) as error:
        return f"serves no connection any more: {error}"
    except AssertionError:
        pass  # no frame, but an answer
    return ""

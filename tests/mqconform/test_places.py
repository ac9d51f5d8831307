"""Brokers that are elsewhere than they say, and what is found out of a target."""

from __future__ import annotations

import socket
import threading
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from mqconform.cluster import Cluster
from mqconform.plugin import slow
from mqconform.reference import Reference
from mqconform.target import Address, read_target
from mqrules import UserError
from mqspec.cli import main

NOWHERE = Address("192.0.2.1", 10911)  # documentation's own: nobody is there


@contextmanager
def forwarding(to: Address) -> Iterator[Address]:
    """A port that leads to another address, as that of a container does."""

    def pump(one: socket.socket, other: socket.socket) -> None:
        with suppress(OSError):
            while data := one.recv(1 << 16):
                other.sendall(data)
            other.shutdown(socket.SHUT_WR)

    def serve(listener: socket.socket) -> None:
        with suppress(OSError):
            while True:
                client, _ = listener.accept()
                server = socket.create_connection(to)
                for ends in ((client, server), (server, client)):
                    threading.Thread(target=pump, args=ends, daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=serve, args=(listener,), daemon=True).start()
        yield Address("127.0.0.1", listener.getsockname()[1])
        listener.shutdown(socket.SHUT_RDWR)


def test_a_broker_is_where_the_map_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "home").mkdir()
    with Reference(tmp_path / "home") as reference:
        cluster = Cluster(reference.nameserver)
        cluster.wait(2)
        first = cluster.brokers["broker-a"]
        words = ["conform", str(reference.nameserver), "-k", "committed_offset_is_kept"]
        assert main([*words, "--map", f"{first}={NOWHERE}"]) == 0, "the other broker is taken"
        capsys.readouterr()
        with forwarding(first) as place:
            assert main([*words, "--map", f"{first}={place}", "--frames", "--probe"]) == 0
            drafted = capsys.readouterr().out
            assert f'map = {{ "{first}" = "{place}" }}' in drafted
            assert main([*words, "--map", f"{first}={place}"]) == 0
            assert "passed" in capsys.readouterr().out
    file = tmp_path / "mine.toml"
    file.write_text(drafted, encoding="utf-8")
    target = read_target(file)
    assert (target.nameserver, target.places) == (reference.nameserver, {first: place})
    assert tomllib.loads(drafted)["tls"] is True


def test_a_map_of_a_target_file_is_read(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text('name = "x"\nversion = ""\nnameserver = "a:1"\nmap = { "b" = "c:2" }\n')
    with pytest.raises(UserError, match="b: not an address"):
        read_target(file)


def test_what_is_slow_are_cases() -> None:
    assert len(slow()) > 20
    assert all(name.startswith("test_") for name in slow())

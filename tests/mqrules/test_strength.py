"""Strengths: who relies on a rule is said beside the rules, and nowhere else."""

from __future__ import annotations

from mqrules import Kind, Level, Party, Strength, reliances, rules, strength

SERVERS = {Party.BROKER, Party.NAMESERVER, Party.STORE, Party.SYSTEM}


def test_what_is_relied_on_is_a_must_and_binds_a_server() -> None:
    for rule in reliances():
        assert rules()[rule].level is Level.MUST, rule
        assert rules()[rule].party in SERVERS, rule


def test_who_relies_is_named() -> None:
    known = {"java", "go", "cpp", "node", "mqadmin", "broker", "users"}
    for found in reliances().values():
        for reliance in found:
            assert set(reliance.by) <= known
            assert reliance.by
            assert reliance.how.endswith(".")


def test_a_rule_that_nobody_is_named_for_is_apaches() -> None:
    assert strength("NAMESRV-001") is Strength.RELIED_ON
    assert strength("NAMESRV-005") is Strength.APACHE
    assert all(r.kind is not Kind.IDEAL for r in rules().values() if r.id in reliances())

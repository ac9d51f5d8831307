"""What the design reference needs beyond Sphinx: pages made from rules, models and evidence.

Rules, defects, models and TLA+ operators are objects that roles of these names link to; a link
to one that does not exist fails the build.
"""

from __future__ import annotations

from sphinx.application import Sphinx
from sphinx.util.typing import ExtensionMetadata

from mqdocs import cite, docstrings, languages
from mqdocs.catalogue import DefectsDirective, FigureRole, IdealsDirective, ModelsDirective
from mqdocs.diagram import Draw, SequenceDirective
from mqdocs.entrance import (
    GlanceDirective,
    IncidentsDirective,
    LogLinesDirective,
    SymptomsDirective,
)
from mqdocs.explorer import ExplorerDirective, write_runtime
from mqdocs.guarantees import GuaranteesDirective
from mqdocs.killed import KilledDirective
from mqdocs.lexer import TLAPlusLexer
from mqdocs.matrix import EvidenceMatrixDirective
from mqdocs.modules import ModuleMapDirective, OtherModulesDirective
from mqdocs.navigation import Navigation
from mqdocs.rules import RuleAreasDirective, RulesDirective, every_rule_has_a_page, read_rules
from mqdocs.run import RunDirective
from mqdocs.telling import AtStakeDirective, TellingDirective
from mqdocs.tested import TestedDirective
from mqdocs.theorems import ContractsDirective, InvariancesDirective, TheoremsDirective
from mqdocs.twin import ModuleDirective
from mqdocs.versions import VersionsDirective
from mqdocs.ways import WayDirective

_OBJECTS = ("rule", "defect", "model", "tla", "theorem")
_DIRECTIVES = {
    "rules": RulesDirective,
    "rule-areas": RuleAreasDirective,
    "defects": DefectsDirective,
    "ideals": IdealsDirective,
    "models": ModelsDirective,
    "guarantees": GuaranteesDirective,
    "incidents": IncidentsDirective,
    "symptoms": SymptomsDirective,
    "telling": TellingDirective,
    "at-stake": AtStakeDirective,
    "log-lines": LogLinesDirective,
    "at-a-glance": GlanceDirective,
    "evidence-matrix": EvidenceMatrixDirective,
    "tla-module": ModuleDirective,
    "sequence": SequenceDirective,
    "other-modules": OtherModulesDirective,
    "module-map": ModuleMapDirective,
    "way": WayDirective,
    "run": RunDirective,
    "tested": TestedDirective,
    "killed": KilledDirective,
    "theorems": TheoremsDirective,
    "contracts": ContractsDirective,
    "invariances": InvariancesDirective,
    "explorer": ExplorerDirective,
    "versions": VersionsDirective,
}


def setup(app: Sphinx) -> ExtensionMetadata:
    """Sphinx's entry point."""
    app.setup_extension("sphinx.ext.autodoc")
    app.add_lexer("tlaplus", TLAPlusLexer)
    for name in _OBJECTS:
        app.add_object_type(name, name)
    for name, directive in _DIRECTIVES.items():
        app.add_directive(name, directive)
    app.add_role("figure", FigureRole())
    app.add_config_value("mqspec_report", "../.mqspec/verify/report.json", "env", str)
    app.add_config_value("mqspec_translated", [], "env", list)
    app.add_transform(languages.Untranslated)
    app.add_transform(languages.Unplaced)
    app.add_post_transform(Draw)
    app.add_search_language(languages.SearchByPairs)
    app.connect("builder-inited", read_rules)
    app.connect("html-page-context", languages.link_twin)
    app.connect("html-page-context", languages.tell_english)
    app.connect("html-page-context", cite.add)
    app.connect("html-page-context", Navigation().lighten, priority=Navigation.EARLY)
    app.connect("autodoc-process-docstring", docstrings.link)
    app.connect("autodoc-process-signature", docstrings.tidy_signature)
    app.connect("build-finished", write_runtime)
    app.connect("build-finished", languages.only_translated)
    app.connect("env-check-consistency", every_rule_has_a_page)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}

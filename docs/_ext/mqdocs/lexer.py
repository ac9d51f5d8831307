"""A Pygments lexer for TLA+ (Specifying Systems, chapter 15, and the proof language)."""

from __future__ import annotations

from typing import ClassVar

from pygments.lexer import RegexLexer, bygroups, include, words
from pygments.token import (
    Comment,
    Keyword,
    Name,
    Number,
    Operator,
    Punctuation,
    String,
    Whitespace,
)

_RESERVED = (
    *("EXTENDS", "CONSTANT", "CONSTANTS", "VARIABLE", "VARIABLES", "RECURSIVE", "LOCAL"),
    *("ASSUME", "ASSUMPTION", "AXIOM", "THEOREM", "LEMMA", "PROPOSITION", "COROLLARY"),
    *("INSTANCE", "WITH", "LET", "IN", "IF", "THEN", "ELSE", "CASE", "OTHER", "CHOOSE"),
    *("EXCEPT", "UNCHANGED", "ENABLED", "DOMAIN", "SUBSET", "UNION", "LAMBDA"),
    *("PROOF", "BY", "OBVIOUS", "OMITTED", "QED", "PROVE", "SUFFICES", "HAVE", "TAKE"),
    *("WITNESS", "PICK", "USE", "HIDE", "DEF", "DEFS", "DEFINE", "NEW", "STATE", "ACTION"),
    *("TEMPORAL", "ONLY"),
)
# An identifier has a letter somewhere, not necessarily first.
_IDENTIFIER = r"[0-9_]*[A-Za-z]\w*"
_ARGUMENTS = r"(?:\([^()]*(?:\([^()]*\)[^()]*)*\)|\[[^\[\]]*\])?"


class TLAPlusLexer(RegexLexer):
    """TLA+. What stands before a module and after it is text, as it is for TLC."""

    name = "TLA+"
    aliases: ClassVar[list[str]] = ["tlaplus", "tla"]
    filenames: ClassVar[list[str]] = ["*.tla"]
    url = "https://lamport.azurewebsites.net/tla/tla.html"

    tokens: ClassVar = {
        "root": [
            (
                rf"^([ \t]*)(-{{4,}})([ \t]*)(MODULE)([ \t]+)({_IDENTIFIER})([ \t]*)(-{{4,}})",
                bygroups(
                    *(Whitespace, Punctuation, Whitespace, Keyword.Namespace),
                    *(Whitespace, Name.Namespace, Whitespace, Punctuation),
                ),
                "module",
            ),
            # An excerpt has no header: what begins like TLA+ is read as TLA+.
            (r"(?=^(\(\*|\\\*|[A-Z]\w*[^\n]*==|[A-Z]{4,}))", Whitespace, "module"),
            include("text"),
        ],
        "text": [(r"[^\n]+\n?|\n", Comment)],
        "module": [
            (r"^[ \t]*={4,}", Punctuation, "text"),
            (r"^[ \t]*-{4,}(?=\s)", Punctuation),
            include("expression"),
        ],
        "expression": [
            (r"\s+", Whitespace),
            (r"\(\*", Comment.Multiline, "comment"),
            (r"\\\*[^\n]*", Comment.Single),
            (r'"(?:[^"\\\n]|\\.)*"', String),
            (words(_RESERVED, prefix=r"\b", suffix=r"\b"), Keyword),
            (words(("TRUE", "FALSE", "BOOLEAN", "STRING"), suffix=r"\b"), Keyword.Constant),
            (r"\b[WS]F_(?=\w|<<)", Keyword),
            (r"<\d+>\w*\.?", Name.Label),
            (rf"{_IDENTIFIER}(?={_ARGUMENTS}\s*==(?!=))", Name.Function),
            (r"\\[bB][01]+|\\[oO][0-7]+|\\[hH][0-9a-fA-F]+", Number),
            (_IDENTIFIER, Name),
            (r"\d+(?:\.\d+)?", Number),
            (r"\\(?:E|A|EE|AA|in|notin|cup|cap|union|intersect|subseteq)\b", Operator.Word),
            (r"\\[A-Za-z]+", Operator.Word),
            (r"<<|>>_?|\[\]|<>|\]_|[()\[\]{},]", Punctuation),
            (r"[-+*/\\=#<>~'@!:.;%^&|$?_]+?", Operator),
        ],
        "comment": [
            (r"\(\*", Comment.Multiline, "#push"),
            (r"\*\)", Comment.Multiline, "#pop"),
            (r"[^*()]+|[*()]", Comment.Multiline),
        ],
    }

"""A recorder: it stands between clients and a cluster, and writes the history of what it saw.

`routes` says what a client is told in place of the real addresses; `relay` carries frames on;
`observer` reads them and says what happened, by the named rules of `derived`; `journal` keeps
that on disk. Only `relay` and `journal` do anything: the others are functions of what they are
given.
"""

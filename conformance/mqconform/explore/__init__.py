"""Exploration: exchanges that nobody listed, each answer held against what the core allows.

An area (`areas/`) says which requests there are and what each may be answered: its model is the
pure core. Hypothesis draws programs of requests, with sizes around the edges of the protocol
and its implementations; `player` sends them to a live target from many connections, and
`possible` keeps every state in which the target may be. An answer that is allowed in none of
them is a departure, and is shrunk to the shortest program that shows it.
"""

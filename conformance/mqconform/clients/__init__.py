"""Clients under test: programs of somebody's, each behind a door of its own to a real cluster.

What a client does is seen as the frames that go through its door, and as the lines that it prints.
"""

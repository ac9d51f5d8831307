"""Whether the broker's fast path equals its plain path: random requests go to a broker with each,
and answers and files are compared byte by byte. That is sampled evidence, with its count.
"""

"""The reference: a broker, a nameserver and clients that are the specification, running."""

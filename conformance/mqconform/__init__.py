"""The conformance suite: black-box cases for any broker, as a pytest plugin."""

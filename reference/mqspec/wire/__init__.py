"""The remoting protocol, sans-IO: bytes to commands and back."""

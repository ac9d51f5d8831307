"""The broker's files, byte for byte those of the real one, and recovery from them."""

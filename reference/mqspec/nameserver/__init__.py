"""The asyncio shell of the nameserver."""

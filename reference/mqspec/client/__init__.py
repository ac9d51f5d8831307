"""The asyncio producer and consumers."""

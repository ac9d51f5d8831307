"""The asyncio shell of the broker: carries events, decides nothing."""

"""The subcommands of `mqspec` that belong to the reference."""

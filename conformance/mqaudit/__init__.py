"""The audit pipeline, on Spark: what a real cluster did, judged by the rules."""

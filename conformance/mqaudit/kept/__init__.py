"""What real clusters keep by themselves: message traces, logs and topics, as events."""

"""What follows what in a flow, and how it goes on: pure decisions."""

"""Flows: tracing a flow function to a graph, and deciding which steps run next. Pure code."""

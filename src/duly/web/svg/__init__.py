"""Drawings: from values to SVG, coloured by the stylesheet, and never by colour alone.

What can be pointed at says in words what it is.
"""

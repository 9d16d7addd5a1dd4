"""SVG charts. The stylesheet sets the colours, and no meaning depends on colour alone.

Every element that a reader can point at has a tooltip.
"""

"""The worker processes, one program for each contestant, each with the settings its project names.

They are apart from ``contestants`` so that a worker imports what its users would import, and no
more: what it weighs and how soon it starts is measured.
"""

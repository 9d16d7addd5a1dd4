"""A world in which time, chance and failure are chosen by a seed."""

"""``duly doctor``: checks a store and its surroundings, and says how to fix each problem."""

from duly.doctor.checks import Doctor, Finding, Level, Patient
from duly.doctor.examination import check_names, examine

__all__ = ["Doctor", "Finding", "Level", "Patient", "check_names", "examine"]

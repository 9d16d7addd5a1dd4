"""The doctor: looks at a store and at what is around it, and says of each trouble what helps."""

from duly.doctor.examination import check_names, examine
from duly.doctor.finding import Finding, Level, Patient

__all__ = ["Finding", "Level", "Patient", "check_names", "examine"]

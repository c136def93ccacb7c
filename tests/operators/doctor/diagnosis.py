"""Ask the doctor, in this process."""

from operators.doctor.diagnoses import Diagnosis, State
from operators.doctor.examining import examine
from operators.doctor.registry import CHECKS

_TROUBLES = (State.WARNING, State.ERROR)


def troubles(*areas: str) -> list[Diagnosis]:
    """List what the doctor finds wrong in some areas, by default in all.

    Whether the disk of the machine that tests is full is not ours to say.
    """
    found = [finding for _, finding in examine(CHECKS, areas) if finding.state in _TROUBLES]
    return [finding for finding in found if finding.subject != "disk"]


def the_trouble(area: str) -> Diagnosis:
    """Give the one trouble that the doctor finds in an area."""
    found = troubles(area)
    assert len(found) == 1, found
    return found[0]


def trouble_with(area: str, subject: str) -> Diagnosis:
    """Give the trouble that the doctor finds with one thing, where others may be wrong, too."""
    found = {one.subject: one for one in troubles(area)}
    assert subject in found, found
    return found[subject]

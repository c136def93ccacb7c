"""What a release does not pass over either: the ids of its checks, and the doctor's looks that they carry out."""

from operators.doctor.configuration import OF_THE_DOCTOR, find_misspelt_names
from operators.doctor.keys import find_equal_keys
from operators.doctor.nodes import find_open_ways

LOOKS = dict(zip(OF_THE_DOCTOR, (find_equal_keys, find_open_ways, find_misspelt_names), strict=True))

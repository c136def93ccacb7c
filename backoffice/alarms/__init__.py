"""Alarms: raised from what the work queue finds, shown on every page, and told to the staff whose errand it is."""

"""Totals of the log by day, alarms, and the notices that tell people of them."""

from backoffice.models.alarms import Alarm, Notice, NoticeState, Occasion
from backoffice.models.totals import DailyTotal, RollUp, TotalOf

__all__ = ["Alarm", "DailyTotal", "Notice", "NoticeState", "Occasion", "RollUp", "TotalOf"]

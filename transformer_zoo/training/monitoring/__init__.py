"""Metrics, anomalies, profiles and progress of a run while it trains.

Imports `forecast` for FLOPs, and `training.state`. Begin with `monitor.py`,
which reads what the steps return; `training/watching.py` has what a user may
bind, `writers/` the services that metrics are sent to.
"""

"""Objectives: (model, parameters, batch) -> the loss and sums of metrics."""

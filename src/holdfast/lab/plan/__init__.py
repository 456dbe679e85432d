"""Forecasts a sale and sizes the hardware by simulation. Imported by commands."""

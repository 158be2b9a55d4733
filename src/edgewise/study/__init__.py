"""Drivers: they prepare, measure, save, and hand on."""

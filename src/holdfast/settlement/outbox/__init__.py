"""Telling the world: events become deliveries, and deliveries reach their receivers."""

"""Compares what the ledger says with what the buyers saw. Pure; imported by run and report."""

"""Calls to addresses that others chose: where they may lead, how long they may take, how much is read."""

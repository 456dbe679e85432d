"""Sales: how one comes to be, what may be changed while it runs, and how it ends."""

"""The page `/simulation` of `holdfast demo`: a sale on a real server with faults at the push of a button, and beside
it what simpler shops sell to the same buyers."""

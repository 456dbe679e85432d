"""The click stream: what visitors of a sale do, for analysis. It may lose clicks, and never delays anyone."""

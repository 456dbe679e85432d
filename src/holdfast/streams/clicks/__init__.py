"""The click stream: what visitors of a sale do, for analysis. It may lose clicks, but never delays anyone.

Every layer above streams may import it.
"""

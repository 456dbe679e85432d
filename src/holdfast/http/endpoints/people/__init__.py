"""Endpoints about operators: sign-in, invitations, sessions, approvals, the record of their actions.

http.server and the CLI may import it.
"""

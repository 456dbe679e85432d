"""The operator console: who is signed in, and what is shown of a sale while it sells."""

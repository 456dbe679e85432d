"""The waiting room: joining, advancing, tickets, passes, proof of work. Every layer above may import it."""

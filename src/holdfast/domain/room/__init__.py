"""The rules of the waiting room: places, pace, odds and the lottery. Every package may import it."""

"""Commands for sales, drops and waiting rooms. The CLI loads them by name; other commands may import them."""

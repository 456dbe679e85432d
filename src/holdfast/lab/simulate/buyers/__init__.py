"""Those who buy, what they ask the servers for, and what each of them was told."""

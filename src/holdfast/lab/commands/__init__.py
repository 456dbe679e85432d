"""The commands of the lab. The CLI finds them by name; nothing imports them."""

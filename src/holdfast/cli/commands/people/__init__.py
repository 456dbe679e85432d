"""Commands about people: buyers, operators, approvals. The CLI loads them by name; nothing may import them."""

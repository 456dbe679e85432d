"""Commands about people: buyers, operators, and what operators approve."""

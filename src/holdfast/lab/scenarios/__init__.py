"""What a simulated sale looks like and how its buyers behave. Imported by rush, plan, demo and commands."""

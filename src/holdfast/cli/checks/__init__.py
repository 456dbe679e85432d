"""What `holdfast doctor` looks at. Nothing here creates, migrates or changes anything."""

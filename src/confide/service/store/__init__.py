"""What a service keeps: its databases, keys, marks, and the vault that seals what is private."""

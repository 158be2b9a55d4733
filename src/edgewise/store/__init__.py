"""Results on disk: SQLite, every round saved the moment it is done."""

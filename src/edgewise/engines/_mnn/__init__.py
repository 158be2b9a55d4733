"""What the MNN engine is made of: models rewritten as MNN gets them right, its sessions, and trials of both."""

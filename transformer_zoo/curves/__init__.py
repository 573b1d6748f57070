"""What runs have recorded, as curves in the terminal, while they run."""

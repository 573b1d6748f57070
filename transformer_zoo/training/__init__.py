"""Training: state, step, loop, and what they need."""

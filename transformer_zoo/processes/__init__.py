"""Several processes of one run: found, met, watched, ended together."""

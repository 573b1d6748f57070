"""Networks of which a token uses a part: experts, product keys."""

"""C4's cleaning of web pages: rules, duplicates, languages, and their Beam."""

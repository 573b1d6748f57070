"""The command `zoo`. A subcommand imports what it needs when it runs."""

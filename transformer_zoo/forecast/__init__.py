"""What a program costs on devices, there or not: compiled, read and counted."""

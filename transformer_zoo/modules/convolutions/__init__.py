"""Convolutions over neighbouring tokens, alone and in layers of their own."""

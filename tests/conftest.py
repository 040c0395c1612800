"""Fixtures that several packages' tests share."""

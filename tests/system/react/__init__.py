"""Shared by the test with React: the application that the guide shows, installed, built and served."""

"""The guide at `/guide/`: the Markdown pages of `templates/guide/` as web pages, with a search."""

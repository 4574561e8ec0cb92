"""For the test of the guide's page on Next.js: what `create-next-app` writes, and a route for the test."""

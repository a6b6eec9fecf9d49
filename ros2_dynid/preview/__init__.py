"""A motion of a robot as a scene, and the page that plays it: one HTML file without a server, and the panel's page."""

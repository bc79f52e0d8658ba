"""What the page of one job shows, part by part."""

"""What the system says about itself: log events, and the handler logs kept with each attempt."""

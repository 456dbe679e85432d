"""Web Push: notifications in browsers, for buyers who asked for them."""

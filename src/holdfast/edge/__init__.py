"""Configuration for proxies and CDNs in front of Holdfast. The CLI and lab may import it."""

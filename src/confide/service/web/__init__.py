"""The HTTP side of a service: endpoints, roles, limits and pages."""

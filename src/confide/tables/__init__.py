"""Tables: states and actions that can be listed, and nothing known of what they do."""

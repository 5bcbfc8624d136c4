"""Released statistics in, policies out: public from here on."""

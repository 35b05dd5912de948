"""The lab's seven tool services, one small Flask module each, served by waitress."""

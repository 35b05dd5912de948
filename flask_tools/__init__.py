"""The lab's tool services, one small Flask module each, served by waitress."""

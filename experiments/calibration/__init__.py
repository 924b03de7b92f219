"""Calibration: the constants of devices and links, fitted once and openly from measurements."""

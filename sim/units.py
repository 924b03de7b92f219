"""Units: the only powers of ten and two in the project.

Everything inside is in base units (seconds, bytes, FLOPs, floats); multiply by these at the edges:
``50 * GB`` is bytes (or, of a rate, bytes per second), ``400 * Gbit`` is bytes too, ``5 * us`` seconds.
"""

KB, MB, GB, TB = 1e3, 1e6, 1e9, 1e12
"""Decimal bytes: data sheets, rates."""
KiB, MiB, GiB, TiB = 2.0**10, 2.0**20, 2.0**30, 2.0**40
"""Binary bytes: memory capacities, message sizes."""
Gbit = 1e9 / 8
"""Gigabit, in bytes."""
ns, us, ms = 1e-9, 1e-6, 1e-3
minute, hour, day = 60.0, 3600.0, 86400.0
GFLOP, TFLOP, PFLOP = 1e9, 1e12, 1e15
KILO, MEGA, GIGA, TERA = 1e3, 1e6, 1e9, 1e12
km = 1e3

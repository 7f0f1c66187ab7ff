"""What things are called and coloured wherever people see them."""

MEASURE_NAMES = {"tu": "TU", "au": "AU", "eu": "EU", "eu_pc": "EU_PC", "eu_so": "EU_SO", "lconf": "LConf"}

# Paul Tol's bright scheme: told apart by colour-blind readers too.
MEASURE_COLORS = {
    "tu": "#4477AA",
    "au": "#EE6677",
    "eu": "#228833",
    "eu_pc": "#CCBB44",
    "eu_so": "#66CCEE",
    "lconf": "#AA3377",
}

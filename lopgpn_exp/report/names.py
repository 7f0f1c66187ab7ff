"""What things are called and coloured wherever people see them."""

MEASURE_NAMES = {"tu": "TU", "au": "AU", "eu": "EU", "eu_pc": "EU_PC", "eu_so": "EU_SO", "lconf": "LConf"}

# In the order of the paper's table.
MODEL_NAMES = {
    "appnp": "APPNP",
    "matern_ggp": "Matern-GGP",
    "gkde": "GKDE",
    "gpn_sym": "GPN (sym)",
    "gpn_rw": "GPN (rw)",
    "lop_gpn": "LOP-GPN",
}
DATASET_NAMES = {
    "cora_ml": "CoraML",
    "citeseer": "CiteSeer",
    "amazon_photos": "Amazon Photos",
    "amazon_computers": "Amazon Computers",
    "pubmed": "PubMed",
    "ogbn_arxiv": "OGBN Arxiv",
}
SCENARIO_NAMES = {
    "none": "clean",
    "leave_out_classes": "Leave-out classes",
    "bernoulli": "Ber(0.5)",
    "gaussian": "N(0, 1)",
}

NO_VALUE = "-"  # as the paper prints it

# Paul Tol's bright scheme: told apart by colour-blind readers too.
MEASURE_COLORS = {
    "tu": "#4477AA",
    "au": "#EE6677",
    "eu": "#228833",
    "eu_pc": "#CCBB44",
    "eu_so": "#66CCEE",
    "lconf": "#AA3377",
}
MODEL_COLORS = {
    "appnp": "#CCBB44",
    "matern_ggp": "#66CCEE",
    "gkde": "#AA3377",
    "gpn_sym": "#228833",
    "gpn_rw": "#4477AA",
    "lop_gpn": "#EE6677",
}


def metric_name(metric: str) -> str:
    """`ood/auroc/eu_so` as people read it: `AUC-ROC EU_SO`."""
    *path, last = metric.split("/")
    kind = {"ood/auroc": "AUC-ROC", "change": "change"}.get("/".join(path))
    if kind is not None:
        return f"{kind} {MEASURE_NAMES[last]}"
    return {"test/accuracy": "accuracy", "id/accuracy": "ID accuracy", "ood/accuracy": "OOD accuracy"}[metric]

"""The weather lab: simulated boxes of known truth, on which protocols are judged by figures."""

"""Reads a page of metrics with the parser of Prometheus' own client, which refuses what the format forbids, and prints it as JSON."""

import json
import sys

from prometheus_client.openmetrics.parser import text_string_to_metric_families

families = {}
for family in text_string_to_metric_families(sys.stdin.read()):
    samples = [{"name": s.name, "labels": s.labels, "value": s.value} for s in family.samples]
    families[family.name] = {"type": family.type, "help": family.documentation, "samples": samples}
print(json.dumps(families))

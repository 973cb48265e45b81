"""The control API, its pages and the metrics: what an operator sees and does."""

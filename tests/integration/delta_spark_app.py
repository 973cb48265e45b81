"""Delta's own reader and writer, in a Spark of its own: their jars have to be there when it starts.

Arguments: the table, and the jars with commas between them. It is told what to do by lines of its
standard input: ``read`` answers with the rows, and how many there are of one tenant; ``append N``
adds N rows of nobody, a commit for each.
"""

import json
import sys

from pyspark.sql import SparkSession

SESSION = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.sql.shuffle.partitions": "1",
    "spark.driver.memory": "1g",
    "spark.ui.enabled": "false",
    "spark.databricks.delta.snapshotPartitions": "1",
}


def main(table, jars):
    building = SparkSession.builder.master("local[1]").config("spark.jars", jars)
    for name, value in SESSION.items():
        building = building.config(name, value)
    spark = building.getOrCreate()
    for line in sys.stdin:
        what, *more = line.split()
        if what == "append":
            rows = spark.createDataFrame(
                [("nobody", 0)], spark.read.format("delta").load(table).schema
            )
            for _ in range(int(more[0])):
                rows.write.format("delta").mode("append").save(table)
        found = spark.read.format("delta").load(table)
        counted = found.where("tenant = 'acme' AND value >= 50").count()
        rows = sorted([row.tenant, row.value] for row in found.collect())
        print(json.dumps({"rows": rows, "counted": counted}), flush=True)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])

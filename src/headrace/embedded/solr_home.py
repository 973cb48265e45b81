"""The folder of a Solr: what it runs in, its settings, and a configuration for its cores.

Solr is a filter of a web server, which the archive of Solr brings and starts by scripts. Here that
server is put together by an XML file, with nothing in it but the filter.

The configuration ``headrace`` is what a core for ``SolrIndex`` is made of: types under their usual
names, the update chain, and no field but those that each has. Cores that share it share the fields
that are added to it; one with a copy of it has its own.

Not for production: one core on one node, no password.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from headrace.embedded.addresses import HOST

#: the type is one that the jars have, and is not looked up elsewhere
_JETTY: Final = """<?xml version="1.0"?>
<!DOCTYPE Configure PUBLIC "-//Jetty//Configure//EN"
  "https://www.eclipse.org/jetty/configure_10_0.dtd">
<Configure class="org.eclipse.jetty.server.Server">
  <Arg><New class="java.net.InetSocketAddress">
    <Arg>{host}</Arg><Arg type="int">{port}</Arg>
  </New></Arg>
  <Set name="stopAtShutdown">true</Set>
  <Set name="handler">
    <New class="org.eclipse.jetty.servlet.ServletContextHandler">
      <Set name="contextPath">/solr</Set>
      <Call name="addEventListener">
        <Arg><New class="org.apache.solr.servlet.CoreContainerProvider"/></Arg>
      </Call>
      <Call name="addFilter">
        <Arg><Call class="java.lang.Class" name="forName">
          <Arg>org.apache.solr.servlet.SolrDispatchFilter</Arg>
        </Call></Arg>
        <Arg>/*</Arg>
        <Arg><Call class="java.util.EnumSet" name="of">
          <Arg><Get class="javax.servlet.DispatcherType" name="REQUEST"/></Arg>
        </Call></Arg>
      </Call>
      <Call name="addServlet">
        <Arg>org.eclipse.jetty.servlet.DefaultServlet</Arg><Arg>/</Arg>
      </Call>
    </New>
  </Set>
</Configure>
"""
_LOG4J: Final = """rootLogger.level = warn
rootLogger.appenderRef.out.ref = out
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d %p %c{1} %m%n%xEx{short}
"""
#: as docs/sinks.md shows it
_CONFIG: Final = """<config>
  <luceneMatchVersion>9.12</luceneMatchVersion>
  <updateHandler>
    <updateLog/>
    <autoCommit><maxTime>15000</maxTime><openSearcher>false</openSearcher></autoCommit>
  </updateHandler>
  <requestHandler name="/select" class="solr.SearchHandler"/>
  <updateRequestProcessorChain name="headrace">
    <processor class="solr.DocBasedVersionConstraintsProcessorFactory">
      <str name="versionField">headrace_version</str>
      <bool name="ignoreOldUpdates">true</bool>
      <bool name="supportMissingVersionOnOldDocs">true</bool>
    </processor>
    <processor class="solr.DistributedUpdateProcessorFactory"/>
    <processor class="solr.RunUpdateProcessorFactory"/>
  </updateRequestProcessorChain>
</config>
"""
_SCHEMA: Final = """<schema name="headrace" version="1.6">
  <fieldType name="string" class="solr.StrField" docValues="true"/>
  <fieldType name="boolean" class="solr.BoolField"/>
  <fieldType name="plong" class="solr.LongPointField" docValues="true"/>
  <fieldType name="pdouble" class="solr.DoublePointField" docValues="true"/>
  <fieldType name="pdate" class="solr.DatePointField" docValues="true"/>
  <fieldType name="binary" class="solr.BinaryField"/>
  <fieldType name="text_general" class="solr.TextField">
    <analyzer><tokenizer name="standard"/><filter name="lowercase"/></analyzer>
  </fieldType>
  <field name="id" type="string" required="true"/>
  <field name="_version_" type="plong"/>
  <field name="headrace_version" type="plong"/>
  <uniqueKey>id</uniqueKey>
</schema>
"""


def make_home(folder: Path, port: int) -> None:
    """Write what a Solr starts from; cores that are there stay.

    Raises:
        OSError: the folder cannot be written.
    """
    (folder / "home").mkdir(exist_ok=True)
    (folder / "jetty.xml").write_text(_JETTY.format(host=HOST, port=port), "utf-8")
    (folder / "log4j2.properties").write_text(_LOG4J, "utf-8")
    (folder / "home" / "solr.xml").write_text("<solr/>\n", "utf-8")
    make_config(folder / "home" / "configsets" / "headrace")


def make_config(folder: Path) -> None:
    """Write the configuration ``headrace``; fields that were added to one that is there stay.

    Raises:
        OSError: the folder cannot be written.
    """
    conf = folder / "conf"
    conf.mkdir(parents=True, exist_ok=True)
    (conf / "solrconfig.xml").write_text(_CONFIG, "utf-8")
    schema = conf / "managed-schema.xml"
    if not schema.exists():
        schema.write_text(_SCHEMA, "utf-8")

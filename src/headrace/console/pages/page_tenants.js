/* All tenants: who lags, since when, and who takes the most.

   The one page that is looked at all day. The strip on top answers "is all well?", the table "who is
   not?": worst first, and each column can be sorted, searched and filtered. */

import { get } from "./api.js";
import { live } from "./live.js";
import { count, percent, rate, span, text } from "./format.js";
import { Table } from "./table.js";
import {
  Count, Empty, Lag, Loading, Problem, Rate, Share, Shape, Span, Spark, State, Tile, html, kindOf, plural,
  useEffect, useLive, useMemo, useState,
} from "./ui.js";

const figures = (row) => row.figures || {};
const shownState = (row) => (row.state !== "active" ? row.state : figures(row).state || "active");
const RANK = { suspended: 0, partly: 1, retrying: 2, throttled: 3, waiting: 4, active: 5, removed: 6, unknown: 7 };
const delay = (row, name) => (row.figures ? row.figures.delay[name] : null);

const columnsOf = (sparks, most) => [
  { key: "name", title: "tenant", width: "15%", value: (row) => row.name,
    render: (row, current) => html`<a href=${`#/tenants/${encodeURIComponent(row.name)}`} data-go
      tabindex=${current ? 0 : -1}>${row.name}</a>` },
  { key: "state", title: "state", width: "9.5%", value: (row) => RANK[kindOf(shownState(row))],
    render: (row) => html`<${State} of=${shownState(row)} title=${figures(row).note || undefined} />${
      figures(row).failures_open > 0 && html`<span class="fails" title=${`${plural(figures(row).failures_open,
        "open failure")}`}><${Shape} of="critical" />${figures(row).failures_open}</span>`}` },
  { key: "lag", title: "lag", num: true, width: "8%", help: "Records between position and end of the log",
    value: (row) => figures(row).lag_records, render: (row) => html`<${Lag} of=${figures(row)} />` },
  { key: "lag_s", title: "behind", num: true, width: "7.5%", help: "How long ago the log ended where the position is",
    value: (row) => figures(row).lag_s, render: (row) => html`<${Span} of=${figures(row).lag_s} />` },
  { key: "spark", title: "30 min", width: "108px",
    help: "Seconds behind over the last 30 minutes, each to its own scale",
    value: null, render: (row) => {
      const values = sparks.get(row.name);
      return values && html`<${Spark} values=${values} label=${`behind over 30 minutes: at most ${
        text(span(Math.max(0, ...values.map((each) => each || 0))))}`} />`;
    } },
  { key: "in", title: "in", num: true, width: "7.5%", help: "Records a second that came into the topics",
    value: (row) => figures(row).in_per_s, render: (row) => html`<${Rate} of=${figures(row).in_per_s} />` },
  { key: "out", title: "out", num: true, width: "7.5%", help: "Records a second that were committed",
    value: (row) => figures(row).out_per_s, render: (row) => html`<${Rate} of=${figures(row).out_per_s} />` },
  ...["p50", "p95", "p99"].map((name) => ({
    key: name, title: name, num: true, width: "6.5%", help: `Delay from a record's timestamp to its effect, ${name}`,
    value: (row) => delay(row, `${name}_s`), render: (row) => html`<${Span} of=${delay(row, `${name}_s`)} />` })),
  { key: "share", title: "task share", num: true, width: "10%",
    help: `Share of all task-seconds used; a bar is full at ${text(percent(most))}`,
    value: (row) => figures(row).task_share,
    render: (row) => (row.figures ? html`<${Share} of=${figures(row).task_share}
        most=${most} />` : html`<span class="pale">–</span>`) },
];

/** What fills a bar: the largest share, up to the next of 1, 1/2, 1/4 and so on: it rarely moves. */
function fullBar(rows) {
  const largest = Math.max(0.001, ...rows.map((row) => figures(row).task_share || 0));
  return 2 ** Math.ceil(Math.log2(largest));
}

/** The small lines, asked for once a minute: they have a point a minute. */
function useSparks() {
  const [sparks, set] = useState(new Map());
  useEffect(() => {
    const load = async () => {
      try {
        const found = await get("/v1/sparks");
        set(new Map(Object.entries(found.tenants).map(([name, each]) => [name, each.lag_s])));
      } catch {
        // the lines are an extra; the table tells the same
      }
    };
    load();
    const timer = setInterval(() => document.hidden || load(), 60000);
    return () => clearInterval(timer);
  }, []);
  return sparks;
}

function Strip() {
  useLive("summary", "alerts");
  const now = live.summary;
  if (!now) return html`<div class="strip is-waiting" aria-hidden="true">${[0, 1, 2, 3, 4, 5].map((n) =>
    html`<div class="tile" key=${n}></div>`)}</div>`;
  const there = now.drivers.filter((each) => !each.lost);
  const lost = now.drivers.length - there.length;
  const sum = (name) => there.reduce((total, each) => total + each[name], 0);
  const trail = (name) => live.trail.slice(-90).map((each) => each[name]);
  const alerts = live.alerts || [];
  const critical = alerts.filter((each) => each.severity === "critical").length;
  const words = (name, of) => `${name} while this page was open, at most ${text(of(Math.max(...trail(name))))}`;
  return html`<section class="strip" aria-label="Summary">
    <${Tile} name="drivers" alarm=${lost > 0} note=${lost ? `${lost} lost` : "all there"}>${there.length}<//>
    <${Tile} name="slots busy" note=${`${plural(sum("executors"), "executor")}, target ${sum("slots_target")}`}>
      ${sum("slots_busy")}<span class="of">of ${sum("slots")}</span><//>
    <${Tile} name="tenants" note=${plural(now.streams_total, "stream")}><${Count} of=${now.tenants_total} /><//>
    <${Tile} name="lag" note="records" spark=${html`<${Spark} values=${trail("lag_records")}
      label=${words("lag_records", count)} />`}><${Count} of=${now.lag_records} /><//>
    <${Tile} name="in" note="came in" spark=${html`<${Spark} values=${trail("in_per_s")}
      label=${words("in_per_s", rate)} />`}><${Rate} of=${now.in_per_s} /><//>
    <${Tile} name="out" note="committed" spark=${html`<${Spark} values=${trail("out_per_s")}
      label=${words("out_per_s", rate)} />`}><${Rate} of=${now.out_per_s} /><//>
    <a class="tile-link" href="#/alerts"><${Tile} name="alerts" alarm=${critical > 0}
      note=${alerts.length ? `${critical} critical` : "nothing to do"}>${alerts.length}<//></a>
  </section>`;
}

const STATES = ["active", "throttled", "retrying", "waiting", "suspended"];

function matches(row, state, words) {
  const kind = kindOf(shownState(row));
  if (state && kind !== state && !(state === "suspended" && kind === "partly")) return false;
  const name = row.name.toLowerCase();
  return words.every((word) => name.includes(word));
}

export function Tenants({ me }) {
  useLive("tenants");
  const [query, setQuery] = useState("");
  const [state, setState] = useState("");
  const sparks = useSparks();
  const every = [...live.tenants.values()];
  const most = fullBar(every);
  const columns = useMemo(() => columnsOf(sparks, most), [sparks, most]);
  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  const rows = every.filter((row) => matches(row, state, words));
  const counts = new Map();
  for (const row of every) {
    const kind = kindOf(shownState(row)).replace("partly", "suspended");
    counts.set(kind, (counts.get(kind) || 0) + 1);
  }
  return html`
    <div class="head"><h1 tabindex="-1">Tenants</h1>
      <div class="filters" role="group" aria-label="Show by state">
        <button class=${`chip ${state ? "" : "is-on"}`} aria-pressed=${String(!state)}
            onClick=${() => setState("")}>all
          <b>${every.length}</b></button>
        ${STATES.filter((each) => counts.get(each) || each === state).map((each) => html`<button key=${each}
          class=${`chip ${state === each ? "is-on" : ""}`} aria-pressed=${String(state === each)}
          onClick=${() => setState(state === each ? "" : each)}><${State} of=${each} /><b>${counts.get(each) || 0}</b>
              </button>`)}
      </div>
      <label class="search"><span class="unseen">Search tenants</span><input type="search" data-search value=${query}
        placeholder="Search tenants   /" onInput=${(event) => setQuery(event.target.value)}
        onKeyDown=${(event) => event.key === "Escape" && (query ? setQuery("") : event.target.blur())} /></label>
    </div>
    <${Strip} />
    <${Body} rows=${rows} every=${every} columns=${columns} sparks=${sparks}
        clear=${() => { setQuery(""); setState(""); }} />
    <p class="unseen" role="status">${live.tenantsKnown && (query || state) ? plural(rows.length, "tenant") : ""}
        </p>`;
}

function Body({ rows, every, columns, clear }) {
  if (!live.tenantsKnown) {
    return live.status === "lost"
      ? html`<${Problem} error=${{ message: `Nothing answers at ${location.host}.`,
          advice: "See that `headrace console` or `headrace up` still runs. This page tries again by itself." }} />`
      : html`<${Loading} what="tenants" />`;
  }
  if (!every.length) return html`<${Empty} title="No tenant yet"><p>Tenants appear when their topics do, or by
    <code>headrace tenants add</code>.</p><//>`;
  if (!rows.length) return html`<${Empty} title="No tenant matches"><p><button class="button" onClick=${clear}>Show
    all</button></p><//>`;
  return html`<${Table} label="Tenants" columns=${columns} rows=${rows} id=${(row) => row.name}
    start=${{ key: "lag_s", descending: true }} />`;
}

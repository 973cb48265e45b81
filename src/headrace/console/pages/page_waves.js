/* Waves: what the slots did over the last minutes, and what held them back.

   The timeline shows who ran where; below it the same waves as a table, what backpressure allowed
   against what was done, and how the slots followed the need. Slots and pace are drawn from what
   came since the console was opened: their history is not kept. */

import { live } from "./live.js";
import { rate, span, timeOfDay } from "./format.js";
import { Chart } from "./charts.js";
import { Table } from "./table.js";
import { Timeline, TimelineKey } from "./timeline.js";
import { Choice, Count, Empty, Loading, Span, html, plural, useLive, useMemo, useNow, useState } from "./ui.js";

const RANGES = [["60", "1 min"], ["300", "5 min"], ["600", "10 min"]];
const whole = (value) => [String(Math.round(value)), ""];

const records = (wave) => wave.bins.reduce((sum, each) => sum + each.records, 0);
const tenants = (wave) => wave.bins.reduce((sum, each) => sum + each.tenants_total, 0);

function ended(wave) {
  const counts = {};
  for (const bin of wave.bins) counts[bin.outcome] = (counts[bin.outcome] || 0) + 1;
  return ["failed", "running", "yielded", "done"].filter((name) => counts[name]).map((name) => [name, counts[name]]);
}

const lasted = (wave, now) => (wave.ended_at_s ?? now) - wave.started_at_s;

const columnsAt = (now) => [
  { key: "started", title: "started", width: "11%", value: (row) => row.started_at_s,
    render: (row) => html`<span class="num">${timeOfDay(row.started_at_s)}</span>` },
  { key: "use_case", title: "use case", width: "13%", value: (row) => row.use_case, render: (row) => row.use_case },
  { key: "driver", title: "driver", width: "13%", value: (row) => row.driver, render: (row) => row.driver },
  { key: "took", title: "took", width: "9%", num: true, value: (row) => lasted(row, now),
    render: (row) => html`<${Span} of=${lasted(row, now)} />` },
  { key: "bins", title: "bins", width: "8%", num: true, value: (row) => row.bins.length,
    render: (row) => row.bins.length },
  { key: "tenants", title: "tenants", width: "8%", num: true, value: tenants, render: (row) => tenants(row) },
  { key: "records", title: "records", width: "9%", num: true, value: records, render: (row) => html`<${Count}
      of=${records(row)} />` },
  { key: "ended", title: "how it ended", width: "29%", value: (row) => `${ended(row)[0]}${row.error}`,
    render: (row) => html`<span class="outcomes">${ended(row).map(([name, number]) => html`<span key=${name}
      class="outcome"><span class=${`swatch is-${name}`} aria-hidden="true"></span>${number} ${name}
          </span>`)}${row.error
      && html`<span class="is-critical" title=${row.error}>${row.error}</span>`}</span>` },
];

function Paces() {
  useLive("use-cases");
  const shown = [...live.paces.entries()].filter(([, trail]) => trail.length).sort(([a], [b]) => a.localeCompare(b));
  const column = (trail, name) => trail.map((each) => each[name]);
  const lines = [{ name: "measured", colour: "--line-1", width: 2 },
    { name: "allowed", colour: "--line-3", dash: "dash", steps: true }];
  return shown.map(([name, trail]) => html`<${Chart} key=${name} group="waves" title=${`${name}: pace`} unit=${rate}
    columns=${["at_s", "records_per_s", "pace_per_s"].map((each) => column(trail, each))} lines=${lines} />`);
}

function Slots() {
  useLive("summary");
  const sum = (summary, name) => summary.drivers.reduce((total, each) => total + (each.lost ? 0 : each[name]), 0);
  const column = (name) => live.trail.map((each) => sum(each, name));
  return html`<${Chart} group="waves" title="Slots" whole unit=${whole}
      columns=${[live.trail.map((each) => each.at_s),
      column("slots_busy"), column("slots"), column("slots_target"), column("executors")]} lines=${[
    { name: "busy", colour: "--line-1", fill: true, steps: true }, { name: "there", colour: "--line-4", steps: true },
    { name: "target", colour: "--line-3", dash: "dash", steps: true },
    { name: "executors", colour: "--line-2", dash: "dot", width: 2, steps: true }]} />`;
}

function Body({ waves, range, now, paused }) {
  const columns = useMemo(() => columnsAt(now), [paused, Math.floor(now)]);
  if (!live.wavesKnown) return html`<${Loading} what="waves" />`;
  if (!waves.length) return html`<${Empty} title="No wave ran in these minutes"><p>Waves run as soon as a tenant has
    something to do. Send an event, or look at a longer time.</p><//>`;
  const drivers = live.summary ? live.summary.drivers.filter((each) => !each.lost) : [];
  return html`<div class="card"><${Timeline} waves=${waves} drivers=${drivers} from=${now - Number(range)}
      until=${now} /><${TimelineKey} /></div>
    <h2>${plural(waves.length, "wave")}</h2>
    <${Table} label="Waves" tall=${false} columns=${columns} rows=${waves} id=${(row) => row.wave}
      start=${{ key: "started", descending: true }} stamp=${Math.floor(now)} />`;
}

export function Waves() {
  useLive("waves", "summary");
  const clock = useNow();
  const [range, setRange] = useState("300");
  const [useCase, setUseCase] = useState("");
  const [paused, setPaused] = useState(null);
  const now = paused ? paused.at : clock;
  const every = paused ? paused.waves : [...live.waves.values()];
  const names = [...new Set(every.map((each) => each.use_case))].sort();
  const waves = every.filter((each) => (!useCase || each.use_case === useCase)
    && (each.ended_at_s ?? now) > now - Number(range));
  return html`<div class="head"><h1 tabindex="-1">Waves</h1>
      <${Choice} name="range" label="Time shown" options=${RANGES} value=${range} onChange=${setRange} />
      <label class="field is-inline">use case <select value=${useCase}
          onChange=${(event) => setUseCase(event.target.value)}>
        <option value="">all</option>${names.map((each) => html`<option key=${each} value=${each}>${each}</option>`)}
            </select></label>
      <div class="card-end"><button class="button" aria-pressed=${String(Boolean(paused))}
        onClick=${() => setPaused(paused ? null : { at: clock, waves: every })}>${paused ? "Go on" : "Pause"}</button>
            </div></div>
    <${Body} waves=${waves} range=${range} now=${now} paused=${paused} />
    <section aria-label="Slots and pace"><h2>Slots and pace <span class="pale">since this page was opened</span></h2>
      <div class="charts"><${Slots} /><${Paces} /></div></section>`;
}

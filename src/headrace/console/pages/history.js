/* What a tenant went through: delay, lag and rates of the last minutes up to a day.

   The store keeps points by stream; a tenant may have several streams. Records and rates are added
   up. Percentiles can not be, so over several streams the worst one's are shown, and it is said so;
   one stream alone shows its own. After the last point kept, the line goes on with what is live. */

import { get, path } from "./api.js";
import { rate, span, count } from "./format.js";
import { Chart } from "./charts.js";
import { Choice, Problem, html, useEffect, useLoaded, useMemo, useRef, useState } from "./ui.js";

const RANGES = [["1800", "30 min"], ["7200", "2 h"], ["86400", "24 h"]];

const worst = (a, b) => (a === null || a === undefined ? b : b === null || b === undefined ? a : Math.max(a, b));

/** Points of one or of all use cases, by time. */
export function merged(points, useCase) {
  const byTime = new Map();
  for (const each of points) {
    if (useCase && each.use_case !== useCase) continue;
    const at = each.from_s + each.span_s;
    const sum = byTime.get(at) || { lag: 0, lag_s: 0, in: 0, out: 0, p50: null, p95: null, p99: null };
    sum.lag += each.lag_records;
    sum.lag_s = Math.max(sum.lag_s, each.lag_s);
    sum.in += each.records_in / each.span_s;
    sum.out += each.records_out / each.span_s;
    for (const name of ["p50", "p95", "p99"]) sum[name] = worst(sum[name], each.delay[`${name}_s`]);
    byTime.set(at, sum);
  }
  return [...byTime.entries()].sort(([a], [b]) => a - b);
}

const fresh = (figures) => ({
  lag: figures.lag_records, lag_s: figures.lag_s, in: figures.in_per_s, out: figures.out_per_s,
  p50: figures.delay.p50_s, p95: figures.delay.p95_s, p99: figures.delay.p99_s,
});

/** What came by events since the page was opened, at most one every five seconds. */
function useTail(row) {
  const tail = useRef([]);
  useEffect(() => {
    if (!row.figures) return;
    const now = Date.now() / 1000;
    const last = tail.current.at(-1);
    if (!last || now - last[0] >= 5) tail.current.push([now, fresh(row.figures)]);
    while (tail.current.length > 360) tail.current.shift();
  }, [row]);
  return tail.current;
}

const column = (points, name) => points.map(([, each]) => each[name]);

export function History({ tenant, row }) {
  const [range, setRange] = useState("1800");
  const [useCase, setUseCase] = useState("");
  const tail = useTail(row);
  const loaded = useLoaded(() => {
    const until = Math.floor(Date.now() / 1000) + 1;
    return get(`${path("tenants", tenant, "history")}?from_s=${until - Number(range)}&until_s=${until}`);
  }, [tenant, range], 60);
  const items = loaded.data ? loaded.data.items : [];
  const useCases = useMemo(() => [...new Set(items.map((each) => each.use_case))].sort(), [loaded.data]);
  const kept = useMemo(() => merged(items, useCase), [loaded.data, useCase]);
  const last = kept.length ? kept.at(-1)[0] : 0;
  const points = useCase ? kept : [...kept, ...tail.filter(([at]) => at > last)];
  const times = points.map(([at]) => at);
  const until = Date.now() / 1000;
  const drawn = (...names) => [times, ...names.map((name) => column(points, name))];
  const frame = { group: "tenant", from: until - Number(range), until };
  return html`<section aria-label="History"><div class="section-head"><h2>History</h2>
      <${Choice} name="range" label="Time shown" options=${RANGES} value=${range} onChange=${setRange} />
      ${useCases.length > 1 && html`<label class="field is-inline">of <select value=${useCase}
        onChange=${(event) => setUseCase(event.target.value)}><option value="">all use cases</option>
        ${useCases.map((each) => html`<option key=${each} value=${each}>${each}</option>`)}</select></label>`}
      ${!useCase && useCases.length > 1 && html`<span class="pale">delay and seconds: of the worst use case</span>`}
          </div>
    <${Problem} error=${loaded.error} again=${loaded.again} />
    <div class="charts">
      <${Chart} ...${frame} title="Delay" unit=${span} columns=${drawn("p50", "p95", "p99")} lines=${[
        { name: "p50", colour: "--line-1", width: 2 }, { name: "p95", colour: "--line-2", dash: "dash" },
        { name: "p99", colour: "--line-3", dash: "dot", width: 2 }]} />
      <${Chart} ...${frame} title="Behind" unit=${span} columns=${drawn("lag_s")} lines=${[
        { name: "seconds", colour: "--line-1", fill: true }]} />
      <${Chart} ...${frame} title="Lag" unit=${count} columns=${drawn("lag")} lines=${[
        { name: "records", colour: "--line-1", fill: true }]} />
      <${Chart} ...${frame} title="Rates" unit=${rate} columns=${drawn("in", "out")} lines=${[
        { name: "in", colour: "--line-2", dash: "dash" }, { name: "out", colour: "--line-1", width: 2 }]} />
    </div></section>`;
}

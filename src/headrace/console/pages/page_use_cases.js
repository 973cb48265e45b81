/* Use cases: how long their waves take, and where that time goes.

   Three spreads answer it: how long the longest task of a wave worked (processing), the rest of the
   wave's time (scheduling), and what a record waited in all (delay). An average would hide the
   worst, so each is drawn from its least to its most on one scale of powers of ten, with the numbers
   beside it. */

import { all } from "./api.js";
import { live } from "./live.js";
import { bytes, rate, span, text } from "./format.js";
import { Columns, Count, Empty, Listed, Num, Rate, Span, html, useLive, useLoaded } from "./ui.js";

const LOW = -3;
const HIGH = 3;
const PARTS = [["processing", "processing", "How long the longest task of a wave worked"],
  ["scheduling", "scheduling",
    "The rest of a wave's time: handed over, waiting for a slot, its result fetched"],
  ["delay", "total delay", "From a record's timestamp to its committed effect"]];

/** Place of a span on the scale from a millisecond to a quarter of an hour, 0 to 100. */
const place = (seconds) => {
  const power = Math.log10(Math.max(seconds, 1e-3));
  return ((Math.min(Math.max(power, LOW), HIGH) - LOW) / (HIGH - LOW)) * 100;
};

function Box({ of, label }) {
  if (!of.count || of.min_s === null) return html`<span class="pale">nothing measured</span>`;
  const [low, mid, high, high99, most] = [of.min_s, of.p50_s, of.p95_s, of.p99_s, of.max_s].map(place);
  return html`<svg class="box" viewBox="0 0 100 14" preserveAspectRatio="none" role="img"
      aria-label=${`${label}: half under ${
      text(span(of.p50_s))}, at most ${text(span(of.max_s))}`}>
    ${[0, 1, 2, 3, 4, 5, 6].map((tick) => html`<path key=${tick} class="box-grid"
        d=${`M${(tick * 100) / 6} 0v14`} />`)}
    <path class="box-range" d=${`M${low} 7H${most}M${low} 4v6M${most} 4v6`} />
    <rect class="box-99" x=${mid} y="4.5" width=${Math.max(0.4, high99 - mid)} height="5" />
    <rect class="box-95" x=${mid} y="3" width=${Math.max(0.4, high - mid)} height="8" />
    <path class="box-mid" d=${`M${mid} 1v12`} /></svg>`;
}

const Scale = () => html`<span class="unseen">drawn</span><div class="box-scale" aria-hidden="true">
    ${["1 ms", "10 ms", "100 ms", "1 s", "10 s", "100 s", "1000 s"]
  .map((each) => html`<span key=${each}>${each}</span>`)}</div>`;

const SPREAD = [["time of a wave"], ["minimum", "num"], ["median", "num"], ["p95", "num"], ["p99", "num"],
  ["maximum", "num"], ["of", "num"], [html`<${Scale} />`]];

function Spreads({ of, name }) {
  return html`<div class="scroll" role="region" tabindex="0" aria-label=${`Batch statistics of ${name}`}>
      <table class="plain spreads">
    <${Columns} of=${SPREAD} />
    <tbody>${PARTS.map(([key, said, help]) => {
      const one = of[key];
      return html`<tr key=${key}><th scope="row" title=${help}>${said}</th>
        ${["min_s", "p50_s", "p95_s", "p99_s", "max_s"].map((each) => html`<td key=${each} class="is-num">
            <${Span} of=${one[each]} /></td>`)}
        <td class="is-num"><${Count} of=${one.count} /></td><td><${Box} of=${one} label=${said} /></td></tr>`;
    })}</tbody></table></div>`;
}

function sparkUis() {
  const drivers = live.summary ? live.summary.drivers : [];
  return drivers.filter((each) => each.spark_ui_url && !each.lost);
}

/** What else the API says of a use case, in its own words. */
const said = (one) => ["topic", "order", "priority", "bad_record", "data_loss"]
  .filter((name) => (one[name] ?? "") !== "").map((name) => [name.replace("_", " "), one[name]]);

function Card({ one }) {
  const now = one.figures;
  return html`<article class="card" aria-label=${`Use case ${one.use_case}`}><header><h2>${one.use_case}</h2>
      ${said(one).map(([name, value]) => html`<span class="tag" key=${name}><span class="pale">${name}
</span> ${String(value)}</span>`)}</header>
    ${now ? html`<dl class="facts"><dt>records</dt><dd><${Rate} of=${now.records_per_s} /></dd><dt>in</dt><dd><${Num}
        of=${bytes(now.bytes_in_per_s, "/s")} /></dd><dt>out</dt><dd>
            ${now.bytes_out_per_s === null ? html`<span class="pale">not
        known</span>` : html`<${Num} of=${bytes(now.bytes_out_per_s, "/s")} />`}</dd><dt>pace</dt><dd>
            ${now.pace_per_s === null
        ? html`<span class="pale">no limit</span>` : html`at most <${Num} of=${rate(now.pace_per_s)} />`}</dd>
            <dt>waves</dt><dd><${Count}
        of=${now.waves_total} /></dd></dl><${Spreads} of=${now} name=${one.use_case} />`
      : html`<p class="pale">No wave of it ran in the last minutes.</p>`}</article>`;
}

export function UseCases() {
  useLive("use-cases", "summary");
  const loaded = useLoaded(() => all("/v1/use-cases"), [], 30);
  const uis = sparkUis();
  const shown = loaded.data && loaded.data.map((each) => ({ ...each, ...(live.useCases.get(each.use_case) || {}) }));
  return html`<div class="head"><h1 tabindex="-1">Use cases</h1><div class="card-end">
      ${uis.map((each) => html`<a key=${each.driver} class="button" href=${each.spark_ui_url} target="_blank"
          rel="noopener noreferrer">
        Spark UI of ${each.driver}<span class="unseen">, in a new tab</span>
            <svg class="shape" viewBox="0 0 12 12" aria-hidden="true"><path
        d="M4 2H2v8h8V8M6.5 1.5h4v4M10.2 1.8L5.5 6.5" fill="none" stroke="currentColor" stroke-width="1.3" /></svg>
            </a>`)}</div></div>
    <${Listed} loaded=${{ ...loaded, data: shown }} what="use cases" empty=${html`<${Empty} title="No use case yet">
        <p>Deploy one with
      <code>headrace run</code>.</p><//>`}>
      ${(shown || []).map((each) => html`<${Card} key=${each.use_case} one=${each} />`)}<//>`;
}

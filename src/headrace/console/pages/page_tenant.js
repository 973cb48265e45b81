/* One tenant: what it went through, where each lane stands, and what stopped it.

   Reads from the top as a person asks: how is it now, since when, where exactly, why, and what can
   be done. The figures on top are live; streams and failures are asked for every few seconds, since
   the live events carry one line a tenant and not its lanes. */

import { all, get, path } from "./api.js";
import { exact, span } from "./format.js";
import { live } from "./live.js";
import { Limits, Redrive, Resume, Seek, Suspend } from "./actions.js";
import { Failures, Unread } from "./failures.js";
import { History } from "./history.js";
import {
  Columns, Count, Empty, Lag, Loading, Problem, Rate, Shape, Share, Span, State, Tile, When, html, plural,
  useEffect, useLive, useLoaded, useState,
} from "./ui.js";

const change = (me) => me.role === "operator" || me.role === "tenant";
const query = (tenant, more = "") => `?tenant=${encodeURIComponent(tenant)}&limit=1000${more}`;

function Figures({ row }) {
  const now = row.figures;
  if (!now) return html`<p class="notice"><${Shape}
      of="unknown" /> No driver tells of this tenant: it has no stream yet,
    or no driver runs.</p>`;
  return html`<section class="strip" aria-label="Now">
    <${Tile} name="behind" note=${html`<${Lag} of=${now} /> records`}><${Span} of=${now.lag_s} /><//>
    <${Tile} name="in" note="came in"><${Rate} of=${now.in_per_s} /><//>
    <${Tile} name="out" note="committed"><${Rate} of=${now.out_per_s} /><//>
    <${Tile} name="delay p50" note=${`of ${plural(now.delay.count, "record")}`}><${Span} of=${now.delay.p50_s} /><//>
    <${Tile} name="delay p95" note="19 of 20 were sooner"><${Span} of=${now.delay.p95_s} /><//>
    <${Tile} name="delay p99" note=${html`at most <${Span} of=${now.delay.max_s} />`}>
        <${Span} of=${now.delay.p99_s} /><//>
    <${Tile} name="task share" note="of all task-seconds"><${Share} of=${now.task_share} /><//>
  </section>`;
}

function limitsInWords({ weight, throttle }) {
  const most = [
    throttle.records_per_s !== null && `${exact(throttle.records_per_s)} records/s`,
    throttle.bytes_per_s !== null && `${exact(throttle.bytes_per_s)} B/s`,
  ].filter(Boolean);
  return `weight ${weight}, ${most.length ? `at most ${most.join(" and ")}` : "no throttle"}`;
}

// -- streams and lanes ----------------------------------------------------------------------------

/** The lag of a lane against the longest of its stream. */
function LaneBar({ lane, most }) {
  const lag = lane.lag_records || 0;
  const wide = most > 0 ? (lag / most) * 100 : 0;
  return html`<svg class="lane-bar" viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true">
      <rect class="share-all"
    width="100" height="8" /><rect class=${lane.failure ? "lane-stopped" : "share-part"} width=${wide} height="8" />
        </svg>`;
}

const LANE = [["partition", "num"], ["reads next", "num"], ["log ends at", "num"], ["lag", "num"],
  ["lag against the longest", "unseen"], ["stopped by"]];

function Lanes({ lanes }) {
  const most = Math.max(...lanes.map((each) => each.lag_records || 0));
  return html`<div class="scroll" role="region" tabindex="0" aria-label="Lanes"><table class="plain lanes">
      <${Columns} of=${LANE} />
    <tbody>${lanes.map((each) => html`<tr key=${each.lane}><td class="is-num">${each.partition ?? each.lane}</td>
      <td class="is-num num">${exact(each.next_offset)}</td><td class="is-num num">${exact(each.end)}</td>
      <td class="is-num num">${each.lag_is === "about" && "about "}${exact(each.lag_records)}</td><td class="lane-cell"><${LaneBar} lane=${each} most=${most} />
          </td>
      <td>${each.failure ? html`<span class="state is-critical"><${Shape} of="critical" />failure ${each.failure}
          </span>` : each.waits_for?.length ? html`waits for ${each.waits_for.join(", ")}`
            : html`<span class="pale">–</span>`}</td>
    </tr>`)}</tbody></table></div>`;
}

const SCHEMA = ["schema", ["records", "num"], "first", "last"];

/** By which schemas the records of the last hour were written. */
function Schemas({ schemas }) {
  const name = (one) => (one.schema_id === null ? `all others (${one.column})`
    : one.subject === null ? `${one.schema_id} (${one.column})`
    : `${one.subject} version ${one.version}, id ${one.schema_id}`);
  return html`<div class="scroll" role="region" tabindex="0" aria-label="Schemas of the last hour">
    <table class="plain"><${Columns} of=${SCHEMA} />
    <tbody>${schemas.map((each) => html`<tr key=${`${each.column} ${each.schema_id}`}><td>${name(each)}</td>
      <td class="is-num num">${exact(each.records)}</td><td><${When} at=${each.first_at_s} /></td>
      <td><${When} at=${each.last_at_s} /></td></tr>`)}</tbody></table></div>`;
}

function StreamCard({ row, me, ask, tick }) {
  const where = path("streams", row.tenant, row.use_case);
  const loaded = useLoaded(() => get(where), [where, tick], 3);
  const one = loaded.data || row;
  const now = one.figures;
  const how = one.condition;
  const stopped = one.state === "suspended";
  return html`<article class="card stream" aria-label=${`Stream ${row.tenant}/${row.use_case}`}>
    <header><h3>${row.use_case}</h3><${State} of=${how.state} />
      <span class="pale">${row.topic}</span>
      ${change(me) && html`<div class="card-end">
        <button class="button" onClick=${() => ask(stopped ? "resume" : "suspend", one)}>
            ${stopped ? "Resume" : "Suspend"}</button>
        ${me.role === "operator" && html`<button class="button" disabled=${!one.lanes || !one.lanes.length}
          onClick=${() => ask("seek", one)}>Seek…</button>`}
        <button class="button" onClick=${() => ask("redrive", one)}>Redrive…</button></div>`}</header>
    ${how.reason && html`<p class="notice"><${Shape} of="warning" /> ${how.reason}${
      how.retry_at_s !== null && html`; next try <${When} at=${how.retry_at_s} />`}</p>`}
    ${now && html`<dl class="facts"><dt>lag</dt><dd><${Lag} of=${now} /></dd><dt>behind</dt><dd><${Span}
      of=${now.lag_s} /></dd><dt>in</dt><dd><${Rate} of=${now.in_per_s} /></dd><dt>out</dt><dd>
          <${Rate} of=${now.out_per_s} /></dd>
      <dt>delay p50 / p95 / p99</dt><dd><${Span} of=${now.delay.p50_s} /> / <${Span}
          of=${now.delay.p95_s} /> / <${Span}
      of=${now.delay.p99_s} /></dd><dt>records done</dt><dd><${Count} of=${now.records_total} /></dd>
          <dt>dead letters</dt>
      <dd><${Count} of=${now.dead_letters_total} /></dd><dt>lost by Kafka</dt><dd>
          <${Count} of=${now.lost_records_total} /></dd>
      <dt>passed over</dt><dd><${Count} of=${now.passed_over_records_total} /></dd>
      <dt>held by</dt><dd>${one.holder || "nobody"}, epoch ${one.epoch}</dd></dl>`}
    <${Problem} error=${loaded.error} again=${loaded.again} />
    ${one.lanes ? (one.lanes.length ? html`<${Lanes} lanes=${one.lanes} />`
      : html`<p class="pale">No lane yet: its topic has not been seen.</p>`) : !loaded.error && html`<${Loading}
          what="lanes" />`}
    ${one.schemas && one.schemas.length > 0 && html`<${Schemas} schemas=${one.schemas} />`}
  </article>`;
}

const DIALOGS = { suspend: Suspend, resume: Resume, redrive: Redrive };

function Asked({ asked, me, close, done }) {
  if (!asked) return null;
  if (asked.what === "limits") return html`<${Limits} row=${asked.of} onClose=${close} />`;
  if (asked.what === "seek") return html`<${Seek} of=${asked.of} lanes=${asked.of.lanes} done=${done}
      onClose=${close} />`;
  return html`<${DIALOGS[asked.what]} of=${asked.of} me=${me} done=${done} onClose=${close} />`;
}

function Title({ name, row, me, ask }) {
  const crumb = me.role !== "tenant" && html`<a class="crumb" href="#/tenants">Tenants</a>`;
  if (!row) return html`<div class="head">${crumb}<h1 tabindex="-1">${name}</h1></div>`;
  const suspended = row.state === "suspended";
  const of = { tenant: row.name, use_case: null, stopped_by: row.stopped_by };
  const state = row.state !== "active" ? row.state : row.figures ? row.figures.state : "active";
  return html`<div class="head">${crumb}<h1 tabindex="-1">${row.name}</h1><${State} of=${state} />
    <span class="pale">${limitsInWords(row)}</span>
    ${change(me) && html`<div class="card-end">
      ${me.role === "operator" && html`<button class="button" onClick=${() => ask("limits", row)}>Limits…</button>`}
      <button class=${`button ${suspended ? "is-main" : ""}`}
          onClick=${() => ask(suspended ? "resume" : "suspend", of)}>
        ${suspended ? "Resume tenant" : "Suspend tenant"}</button></div>`}</div>`;
}

export function Tenant({ name, me }) {
  useLive("tenants");
  const [asked, setAsked] = useState(null);
  const [tick, setTick] = useState(0);
  const loaded = useLoaded(() => get(path("tenants", name)), [name, tick], 10);
  const streams = useLoaded(() => all(`/v1/streams${query(name)}`), [name], 5);
  const ask = (what, of) => setAsked({ what, of });
  const done = () => { setTick((n) => n + 1); streams.again(); };
  const close = () => { setAsked(null); loaded.again(); streams.again(); };
  // what was asked for last is newer than the event before it, right after a change
  const seen = live.tenants.get(name);
  const [row, setRow] = useState(null);
  useEffect(() => { if (seen) setRow(seen); }, [seen]);
  useEffect(() => { if (loaded.data) setRow(loaded.data); }, [loaded.data]);
  const title = html`<${Title} name=${name} row=${row} me=${me} ask=${ask} />`;
  if (loaded.error && loaded.error.status === 404) return html`${title}
    <${Empty} title="There is no such tenant"><p>It may have been removed. <a href="#/tenants">See all tenants</a></p>
        <//>`;
  if (!row) return html`${title}${loaded.error
    ? html`<${Problem} error=${loaded.error} again=${loaded.again} />` : html`<${Loading} what=${name} />`}`;
  return html`${title}
    <${Figures} row=${row} />
    <${History} tenant=${name} row=${row} />
    <${Failures} tenant=${name} me=${me} tick=${tick} done=${done} />
    <${Unread} tenant=${name} tick=${tick} />
    <section aria-label="Streams"><h2>Streams</h2>
      ${streams.error && !streams.data ? html`<${Problem} error=${streams.error} again=${streams.again} />`
        : !streams.data ? html`<${Loading} what="streams" />`
        : streams.data.length ? streams.data.map((each) => html`<${StreamCard} key=${each.use_case} row=${each}
            me=${me} ask=${ask} tick=${tick} />`)
        : html`<${Empty}
            title="No stream yet"><p>A stream begins when a topic of this tenant appears for a use case.</p><//>`}
    </section>
    <${Asked} asked=${asked} me=${me} close=${close} done=${done} />`;
}

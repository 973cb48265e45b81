/* What stopped a lane: the error, the record as it came, and the two ways to go on; and ranges that
   stop nothing, as nobody reads them any more.

   The record came from outside: it may be megabytes, no text at all, or text that plays tricks. It
   is shown as text or as bytes, never as markup, and only its beginning unless all is asked for.
   Whoever may not see it is told so, and sees the rest. */

import { all, get, path } from "./api.js";
import { exact } from "./format.js";
import { Retry, Skip } from "./actions.js";
import { Choice, Columns, Loading, Problem, Shape, When, html, plural, useLoaded, useState } from "./ui.js";

const MOST = 4000;

const raw = (base64) => Uint8Array.from(atob(base64), (each) => each.charCodeAt(0));

/** Sixteen bytes a line: place, bytes, and what of them is readable. */
export function hexOf(bytes) {
  const lines = [];
  for (let at = 0; at < bytes.length; at += 16) {
    const part = [...bytes.slice(at, at + 16)];
    const hex = part.map((each) => each.toString(16).padStart(2, "0")).join(" ");
    const shown = part.map((each) => (each > 31 && each < 127 ? String.fromCharCode(each) : "·")).join("");
    lines.push(`${at.toString(16).padStart(6, "0")}  ${hex.padEnd(47)}  ${shown}`);
  }
  return lines.join("\n");
}

function Bytes({ name, of, group }) {
  const [how, setHow] = useState(of.text !== null ? "text" : "hex");
  const [full, setFull] = useState(false);
  if (of.base64 === null) return html`<div class="raw"><div class="raw-head"><h4>${name}</h4>
      <span class="pale">none</span></div></div>`;
  const bytes = raw(of.base64);
  const long = bytes.length > MOST;
  const most = full ? undefined : MOST;
  const shown = how === "hex" ? hexOf(bytes.slice(0, most && most / 4)) : of.text.slice(0, most);
  return html`<div class="raw"><div class="raw-head"><h4>${name}</h4><span class="pale">
      ${plural(bytes.length, "byte")}</span>
      <${Choice} name=${`${group} ${name}`} label=${`Show ${name} as`} options=${of.text === null ? [["hex", "hex"]]
        : [["text", "text"], ["hex", "hex"]]} value=${how} onChange=${setHow} />
      ${long && !full && html`<button class="button is-quiet" onClick=${() => setFull(true)}>Show all</button>`}</div>
    <pre tabindex="0" aria-label=${name}>${shown}${long && !full ? "\n…" : ""}</pre></div>`;
}

function Detail({ failure, me }) {
  const loaded = useLoaded(() => get(path("failures", failure.id)), [failure.id]);
  const one = loaded.data;
  if (loaded.error) return html`<${Problem} error=${loaded.error} again=${loaded.again} />`;
  if (!one) return html`<${Loading} what="the record" />`;
  const { record } = one;
  return html`<div class="detail">
    ${record ? html`<${Bytes} name="key" group=${failure.id} of=${record.key} />
        <${Bytes} name="value" group=${failure.id} of=${record.value} />
        ${record.headers.map((each, index) => html`<${Bytes} key=${index} group=${`${failure.id} ${index}`}
          name=${`header ${each.name}`} of=${each} />`)}`
      : html`<p class="notice"><${Shape} of="unknown" /> ${me.role === "viewer"
        ? "Raw records are shown to operators and to the tenant itself."
        : "No single record is named; the whole slice failed."}</p>`}
    ${one.traceback && html`<div class="raw"><div class="raw-head"><h4>stack</h4></div>
        <pre tabindex="0" aria-label="stack">${one.traceback}</pre></div>`}
  </div>`;
}

function One({ failure, me, ask }) {
  const [open, setOpen] = useState(false);
  const where = failure.offset === null
    ? `offsets ${exact(failure.from_offset)}..${exact(failure.until_offset)}` : `offset ${exact(failure.offset)}`;
  const may = me.role !== "viewer" && failure.state === "open";
  return html`<article class="card failure" aria-label=${`Failure ${failure.id}`}>
    <header><span class="state is-critical"><${Shape} of="critical" />${failure.became}</span>
      <h3>${failure.code}</h3><span class="pale">${failure.use_case}, partition ${failure.partition ?? failure.lane}, ${where}, after
        ${plural(failure.attempts, "attempt")}, <${When} at=${failure.at_s} /></span>
      ${may && html`<div class="card-end"><button class="button is-main"
          onClick=${() => ask("retry", failure)}>Retry…</button>
        <button class="button" onClick=${() => ask("skip", failure)}>Skip…</button></div>`}</header>
    <p class="failure-text">${failure.message}</p>
    <button class="button is-quiet" aria-expanded=${String(open)} onClick=${() => setOpen(!open)}>
      ${open ? "Hide record and stack" : "Show record and stack"}</button>
    ${open && html`<${Detail} failure=${failure} me=${me} />`}
  </article>`;
}

const UNREAD = ["use case", "partition", "offsets", ["records at most", "num"], "when", "why"];
const LAST = 20;

/** Ranges that nobody reads any more: lost by the log, or passed over as too old. */
export function Unread({ tenant, tick }) {
  const where = `/v1/failures?tenant=${encodeURIComponent(tenant)}&unread=true&limit=1000`;
  const loaded = useLoaded(() => all(where), [tenant, tick], 30);
  if (loaded.error && !loaded.data) return html`<${Problem} error=${loaded.error} again=${loaded.again} />`;
  if (!loaded.data || !loaded.data.length) return null;
  const last = loaded.data.slice(-LAST).reverse();
  const more = loaded.data.length - last.length;
  return html`<section aria-label="Never read"><h2>${plural(loaded.data.length, "range")} never read</h2>
    <div class="card scroll" role="region" tabindex="0" aria-label="Ranges never read"><table class="plain wide">
      <${Columns} of=${UNREAD} />
    <tbody>${last.map((each) => html`<tr key=${each.id}><td>${each.use_case}</td><td>${each.partition ?? each.lane}</td>
      <td class="num">${exact(each.from_offset)}..${exact(each.until_offset)}</td>
      <td class="is-num num">${exact(each.records)}</td><td><${When} at=${each.at_s} /></td>
      <td>${each.code}: ${each.message}</td></tr>`)}</tbody></table></div>
    ${more > 0 && html`<p class="pale">and ${plural(more, "range")} before these</p>`}</section>`;
}

export function Failures({ tenant, me, tick, done }) {
  const [asked, setAsked] = useState(null);
  const where = `/v1/failures?tenant=${encodeURIComponent(tenant)}&state=open&limit=200`;
  const loaded = useLoaded(() => all(where, 200), [tenant, tick], 5);
  const ask = (what, failure) => setAsked({ what, failure });
  const close = () => { setAsked(null); loaded.again(); };
  if (loaded.error && !loaded.data) return html`<${Problem} error=${loaded.error} again=${loaded.again} />`;
  const Ask = asked && { retry: Retry, skip: Skip }[asked.what];
  return html`${loaded.data && loaded.data.length > 0 && html`<section aria-label="Open failures">
      <h2>${plural(loaded.data.length, "open failure")}</h2>
      ${loaded.data.map((each) => html`<${One} key=${each.id} failure=${each} me=${me} ask=${ask} />`)}</section>`}
    ${Ask && html`<${Ask} failure=${asked.failure} done=${done} onClose=${close} />`}`;
}

/* Audit: who changed what, and who was refused, newest first. It only reads. */

import { get } from "./api.js";
import { Columns, Empty, Problem, Loading, Shape, When, html, useEffect, useState } from "./ui.js";

function Status({ of }) {
  const kind = of < 400 ? "active" : of < 500 ? "warning" : "critical";
  const said = of < 400 ? "done" : of < 500 ? "refused" : "failed";
  return html`<span class=${`state is-${kind}`}><${Shape} of=${kind} />${said} <span class="pale num">${of}</span>
      </span>`;
}

const row = (each) => html`<tr key=${each.id}><td><${When} at=${each.at_s} /></td><td class="mono">${each.who}</td>
  <td class="mono action">${each.action}</td><td>
      ${each.tenant ? html`<a href=${`#/tenants/${encodeURIComponent(each.tenant)}`}>${each.tenant}</a>`
    : html`<span class="pale">–</span>`}</td><td><${Status} of=${each.status} /></td><td class="mono pale action">
        ${each.detail}</td></tr>`;

const COLUMNS = [["when"], ["who"], ["what"], ["tenant"], ["came of it"], ["asked"]];

export function Audit() {
  const [tenant, setTenant] = useState("");
  const [state, set] = useState({ items: null, next: null, error: null });
  const load = async (cursor) => {
    const asked = new URLSearchParams({ limit: 100, ...(tenant && { tenant }), ...(cursor && { cursor }) });
    try {
      const page = await get(`/v1/audit?${asked}`);
      const items = (before) => (cursor ? [...before.items, ...page.items] : page.items);
      set((before) => ({ items: items(before), next: page.next, error: null }));
    } catch (error) {
      set((before) => ({ ...before, error }));
    }
  };
  useEffect(() => {
    const timer = setTimeout(() => load(null), tenant ? 250 : 0);
    return () => clearTimeout(timer);
  }, [tenant]);
  const none = html`<${Empty} title=${tenant ? "Nobody changed that tenant" : "Nobody changed anything yet"}>
      <p>Every change through the
    API is noted here, refused ones too.</p><//>`;
  return html`<div class="head"><h1 tabindex="-1">Audit</h1><div class="card-end">
      <button class="button" onClick=${() => load(null)}>Look again</button></div>
      <label class="search"><span class="unseen">Changes of one tenant</span>
          <input type="search" data-search value=${tenant}
        placeholder="One tenant, by name   /" onInput=${(event) => setTenant(event.target.value.trim())} /></label>
            </div>
    <${Problem} error=${state.error} again=${() => load(null)} />
    ${!state.items ? !state.error && html`<${Loading} what="the log" />` : !state.items.length ? none
      : html`<div class="card scroll" role="region" tabindex="0" aria-label="Changes"><table class="plain wide">
          <${Columns} of=${COLUMNS} />
        <tbody>${state.items.map(row)}</tbody></table></div>
      ${state.next && html`<p><button class="button" onClick=${() => load(state.next)}>Show older</button></p>`}`}`;
}
